//! The word that lets a client in.
//!
//! In: a file, and what clients send. Out: whether they may. The comparison takes as long for a
//! token that is nearly right as for one that is not.

use crate::error::{Error, refused};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use subtle::ConstantTimeEq;

/// The longest token, in bytes.
const LONGEST: u64 = 4096;

/// A bearer token. It is never shown.
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(…)")
    }
}

impl Token {
    /// The token in a file; a line break at its end is not part of it.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if it cannot be read, and [`Error::BadToken`] unless it holds from 1 to 4096
    /// visible ASCII characters and nothing else.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep::{Error, serve::Token};
    ///
    /// let refused = Token::read("no such file".as_ref());
    /// assert!(matches!(refused, Err(Error::File { action: "read", .. })));
    /// ```
    pub fn read(file: &Path) -> Result<Self, Error> {
        let opened = File::open(file).map_err(refused(file, "read"))?;
        let mut bytes = Vec::new();
        opened.take(LONGEST + 3).read_to_end(&mut bytes).map_err(refused(file, "read"))?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        let token = text.strip_suffix('\n').unwrap_or(&text);
        let token = token.strip_suffix('\r').unwrap_or(token);
        let visible = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.is_empty() || !visible || token.len() as u64 > LONGEST {
            return Err(Error::BadToken { file: file.to_path_buf(), longest: LONGEST });
        }
        Ok(Self(token.to_owned()))
    }

    /// Whether the value of an `Authorization` header holds the token.
    pub(super) fn is_in(&self, header: &[u8]) -> bool {
        let mut parts = header.splitn(2, |&byte| byte == b' ');
        let scheme = parts.next().unwrap_or_default();
        let given = parts.next().unwrap_or_default().trim_ascii();
        scheme.eq_ignore_ascii_case(b"bearer") && self.0.as_bytes().ct_eq(given).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Token, Error> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, bytes).unwrap();
        Token::read(&file)
    }

    #[test]
    fn a_token_is_what_stands_in_its_file_without_the_line_break() {
        for text in ["s3cret", "s3cret\n", "s3cret\r\n"] {
            let token = read(text.as_bytes()).unwrap();
            assert!(token.is_in(b"Bearer s3cret") && token.is_in(b"bearer  s3cret"));
            let others: [&[u8]; 7] = [
                b"",
                b"s3cret",
                b"Basic s3cret",
                b"Bearer",
                b"Bearer s3cre",
                b"Bearer s3cret2",
                b"Bearer S3cret",
            ];
            assert!(others.into_iter().all(|other| !token.is_in(other)));
            assert_eq!(format!("{token:?}"), "Token(…)");
        }
    }

    #[test]
    fn what_no_header_could_hold_is_refused() {
        let long = [b'a'; 4097];
        let bad: [&[u8]; 7] =
            [b"", b"\n", b"two words", b"a\n\n", b"\xff", "é".as_bytes(), &long];
        for bytes in bad {
            assert!(matches!(read(bytes), Err(Error::BadToken { longest: 4096, .. })));
        }
        assert!(read(&long[..4096]).is_ok());
    }
}
