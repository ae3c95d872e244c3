// What the tests ask of the page as it lies in the browser.
const checks = {
  /** Elements that are used or heard, each with its name by the means that the page uses. */
  names() {
    const textOf = (ids) =>
      (ids ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "");
    const used = "input, select, textarea, button, a, summary, [role=region], figure";
    return [...document.querySelectorAll(used)]
      .filter((node) => node.checkVisibility())
      .map((node) => {
        const labels = [...(node.labels ?? [])].map((label) => label.textContent);
        const content = node.matches("button, a, summary") ? [node.textContent] : [];
        const others = [...textOf(node.getAttribute("aria-labelledby")), ...labels, ...content].join(" ");
        return [node.outerHTML.slice(0, 100), (node.getAttribute("aria-label") ?? others).trim()];
      });
  },

  /** The contrast of every visible text, mark and border with what is behind it, as WCAG 2.2 computes it. */
  contrast() {
    const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
    const linear = (level) => (level <= 0.04045 ? level / 12.92 : ((level + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) =>
      0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
    const ratio = (one, two) => {
      const [more, less] = [light(channels(one)), light(two)].sort((a, b) => b - a);
      return (more + 0.05) / (less + 0.05);
    };
    const behind = (node) => {
      for (let at = node; at; at = at.parentElement) {
        const colour = channels(getComputedStyle(at).backgroundColor);
        if (colour.length === 3 || colour[3] > 0) return colour;
      }
      return [255, 255, 255];
    };
    const texts = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode.parentElement;
      const text = walker.currentNode.data.trim();
      // What is not seen, cannot be used, or lies on a cell of its own colour.
      const apart = "option, script, noscript, title, .unseen, .skip, :disabled, .on-dark, .on-light";
      if (!text || !node.checkVisibility() || node.closest(apart)) continue;
      const drawing = node.closest("svg");
      const style = getComputedStyle(node);
      texts.push([text.slice(0, 40), ratio(drawing ? style.fill : style.color, behind(drawing ?? node))]);
    }
    const fields = [...document.querySelectorAll("input:not([type=range]), select, textarea")];
    for (const node of fields.filter((field) => field.checkVisibility() && !field.disabled)) {
      texts.push([`text of ${node.id}`, ratio(getComputedStyle(node).color, behind(node))]);
    }
    const borders = fields
      .filter((field) => field.checkVisibility())
      .map((field) => [
        `border of ${field.id}`,
        ratio(getComputedStyle(field).borderTopColor, behind(field.parentElement)),
      ]);
    const looks = [
      ".first-line",
      ".second-line",
      ".third-line",
      ".first.full",
      ".second.full",
      ".now",
      ".axis",
      ".target",
    ];
    const drawn = [...document.querySelectorAll(looks.map((look) => `svg ${look}`).join(", "))].map(
      (node) => {
        const style = getComputedStyle(node);
        return [
          node.getAttribute("class"),
          ratio(style.stroke === "none" ? style.fill : style.stroke, behind(node.closest("svg"))),
        ];
      },
    );
    return { texts, marks: [...drawn, ...borders] };
  },

  /** Texts of drawings that lie on each other, or leave their drawing. */
  clashes() {
    const overlap = (from, length, other, otherLength) =>
      Math.min(from + length, other + otherLength) - Math.max(from, other);
    return [...document.querySelectorAll("figure svg")].flatMap((svg) => {
      const name = svg.closest("figure").id;
      const { width, height } = svg.viewBox.baseVal;
      const texts = [...svg.querySelectorAll("text")].map((node) => ({
        text: node.textContent,
        box: node.getBBox(),
      }));
      const out = texts.filter(
        ({ box }) =>
          box.x < -0.5 ||
          box.y < -0.5 ||
          box.x + box.width > width + 0.5 ||
          box.y + box.height > height + 0.5,
      );
      const pairs = texts.flatMap((one, index) => texts.slice(index + 1).map((two) => [one, two]));
      const on = pairs.filter(
        ([{ box: a }, { box: b }]) =>
          overlap(a.x, a.width, b.x, b.width) > 1 && overlap(a.y, a.height, b.y, b.height) > 4,
      );
      return [
        ...out.map(({ text }) => `${name}: “${text}” leaves the drawing`),
        ...on.map(([one, two]) => `${name}: “${one.text}” lies on “${two.text}”`),
      ];
    });
  },

  /** By how much the page is too wide, and which elements reach beyond the window. */
  overflow() {
    const room = document.documentElement.clientWidth;
    const wide = [...document.querySelectorAll("body *")].filter(
      (node) =>
        node.checkVisibility() &&
        !node.closest("svg, .table, .skip, .unseen") &&
        node.getBoundingClientRect().right > room + 0.5,
    );
    return [document.documentElement.scrollWidth - room, ...wide.map((node) => node.outerHTML.slice(0, 80))];
  },

  /** The levels of the headings that are seen, in their order. */
  headings() {
    const seen = [...document.querySelectorAll("h1, h2, h3, h4")].filter((node) => node.checkVisibility());
    return seen.map((node) => Number(node.localName[1]));
  },

  /** Ids that something refers to, and that nothing has. */
  dangling() {
    const names = ["aria-describedby", "aria-labelledby", "for", "list"];
    const nodes = [...document.querySelectorAll(names.map((name) => `[${name}]`).join(", "))];
    const ids = nodes.flatMap((node) => names.flatMap((name) => (node.getAttribute(name) ?? "").split(" ")));
    return ids.filter((id) => id && !document.getElementById(id));
  },

  /** What is too small to be hit: 24 pixels, as WCAG 2.2 asks. */
  small() {
    const used = [...document.querySelectorAll("button, input, select, textarea, summary")].filter((node) =>
      node.checkVisibility(),
    );
    const size = (node) => Math.min(node.getBoundingClientRect().width, node.getBoundingClientRect().height);
    return used.filter((node) => size(node) < 24).map((node) => node.outerHTML.slice(0, 60));
  },

  /** What moves, or would. */
  moving() {
    const moves = ({ animationName, transitionDuration, scrollBehavior }) =>
      animationName !== "none" ||
      scrollBehavior === "smooth" ||
      transitionDuration.split(", ").some((time) => parseFloat(time) > 0);
    const able = [...document.querySelectorAll("*")].filter((node) => moves(getComputedStyle(node)));
    return [document.getAnimations().length, ...able.map((node) => node.outerHTML.slice(0, 60))];
  },
};
