//! Who may come in, and from where.

use crate::serve::client::{Client, Service, one};
use crate::support::{run, said, task};

/// A directory with a token in it.
fn token(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, text).unwrap();
    let name = file.to_str().unwrap().to_owned();
    (directory, name)
}

#[test]
fn with_a_token_only_those_who_have_it_get_answers() {
    let (_keep, file) = token("s3cret-token\n");
    let service = Service::start(&["--token-file", &file]);
    for path in
        ["/", "/page.js", "/page.css", "/page/form.js", "/healthz", "/readyz", "/openapi.json"]
    {
        assert_eq!(service.get(path).status(), 200, "{path}");
    }
    let body = one(&task("a", 1)).to_string();
    let ask = |method: &str, path: &str, given: Option<&str>| {
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(given.map(|given| ("Authorization", given)));
        let body = if method == "POST" { body.as_bytes() } else { b"" };
        service.connect().ask(method, path, &headers, body)
    };
    for (method, path, status) in [
        ("POST", "/v1/predict", 200),
        ("POST", "/v1/decide", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/metrics", 200),
        ("DELETE", "/v1/adapters/none", 404),
        ("GET", "/v1/none", 404),
    ] {
        for given in
            [None, Some("Bearer wrong"), Some("s3cret-token"), Some("Bearer s3cret-toke")]
        {
            let refused = ask(method, path, given);
            assert_eq!(refused.problem(), (401, None), "{path}");
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        }
        assert_eq!(ask(method, path, Some("Bearer s3cret-token")).status(), status, "{path}");
    }
}

#[test]
fn an_address_that_others_can_reach_needs_a_token_or_a_word() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8080"] {
        let refused = run(&["serve", "--bind", address, "--model", "no/such/model"]);
        assert_eq!(refused.status.code(), Some(2));
        let said = said(&refused);
        assert!(said.contains("is reachable from other machines"), "{said}");
        assert!(said.contains("--token-file") && said.contains("--allow-anonymous"), "{said}");
    }
    for text in ["", "\n", "two words\n"] {
        let (_keep, file) = token(text);
        let refused = run(&["serve", "--bind", "0.0.0.0:0", "--token-file", &file]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(said(&refused).contains("holds no token"));
    }
    let refused = run(&["serve", "--token-file", "no such file"]);
    assert_eq!(refused.status.code(), Some(2));
    let refused = run(&["serve", "--bind", "127.0.0.1:0", "--model", "no/such/model"]);
    assert_eq!(refused.status.code(), Some(2));
    let refused =
        run(&["serve", "--bind", "127.0.0.1:0", "--model", "builtin", "--model", "builtin"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("\"builtin\" is named twice"));

    let service = Service::start(&["--bind", "0.0.0.0:0", "--allow-anonymous"]);
    let port = service.address.rsplit_once(':').unwrap().1;
    let mut client = Client::connect(&format!("127.0.0.1:{port}"));
    // Any name may lead to a service that is meant for others.
    assert_eq!(client.ask("GET", "/v1/models", &[("Host", "example.org")], b"").status(), 200);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let service = Service::start(&[]);
    let refused = run(&["serve", "--bind", &service.address]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains(&format!("cannot listen on {}", service.address)));
}

#[test]
fn names_that_were_made_to_lead_here_do_not() {
    let service = Service::start(&[]);
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:9", 200),
        ("[::1]:80", 200),
        ("example.org", 421),
        ("127.0.0.1.example.org", 421),
        ("", 421),
    ] {
        let answer = service.connect().ask("GET", "/healthz", &[("Host", host)], b"");
        assert_eq!(answer.status(), status, "{host}");
    }
    let mut client = service.connect();
    client.send(b"GET http://example.org/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.answer().unwrap().problem(), (421, None));
}
