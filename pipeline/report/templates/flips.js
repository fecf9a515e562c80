// The explorer of changed items. All text comes in as data and goes out as text nodes, never as markup.
const PAGE = 10;
const CHANGES = {
  all: ["lost and won", () => true],
  lost: ["lost", (flip) => flip.lost],
  won: ["won", (flip) => !flip.lost],
  critical: ["lost and critical", (flip, item) => flip.lost && item.critical],
};

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// The text with the changed parts in elements of this name.
function marked(text, parts, name) {
  const pieces = [];
  let end = 0;
  for (const [from, to] of parts) {
    pieces.push(text.slice(end, from), element(name, {}, text.slice(from, to)));
    end = to;
  }
  pieces.push(text.slice(end));
  return pieces;
}

function answer(title, score, cut, pieces, empty) {
  const words = `score ${Number(score.toFixed(3))}${cut ? ", cut off at its token limit" : ""}`;
  return element(
    "div",
    {},
    element("p", { className: "label" }, title, " ", element("span", { className: "soft" }, `(${words})`)),
    element("pre", {}, ...(empty ? ["(nothing)"] : pieces)),
  );
}

function body(flip, item, baseline) {
  return element(
    "div",
    { className: "body" },
    element("p", { className: "label" }, "Prompt"),
    element("pre", {}, item.prompt),
    element("p", { className: "label" }, "Expected"),
    element("pre", {}, item.expected),
    element(
      "div",
      { className: "answers" },
      answer(`${baseline} said`, item.score, item.cut, marked(item.output, flip.removed, "del"), !item.output),
      answer(`${flip.variant} said`, flip.score, flip.cut, marked(flip.output, flip.added, "ins"), !flip.output),
    ),
  );
}

function card(flip, item, baseline, open) {
  const chip = element("span", { className: `chip ${flip.lost ? "FAIL" : "PASS"}` }, flip.lost ? "lost" : "won");
  const critical = item.critical ? [element("span", { className: "chip UNDECIDED" }, "critical")] : [];
  const place = element("span", { className: "soft" }, `${item.set} / ${item.category}`);
  const summary = element("summary", {}, chip, " ", ...critical, " ", flip.variant, " · ", item.id, " ", place);
  const details = element("details", { open }, summary);
  const fill = () => details.childElementCount === 1 && details.append(body(flip, item, baseline));
  details.addEventListener("toggle", fill);
  if (open) fill();
  return element("li", {}, details);
}

function options(select, names, all) {
  const before = select.value;
  const entries = Array.isArray(names) ? [["", all], ...names.map((name) => [name, name])] : names.entries;
  select.replaceChildren(...entries.map(([value, text]) => element("option", { value }, text)));
  if (entries.some(([value]) => value === before)) select.value = before;
}

function startFlips({ items, flips, baseline }) {
  const form = document.getElementById("flip-filters");
  const list = document.getElementById("flip-list");
  const more = document.getElementById("flip-more");
  const status = document.getElementById("flip-status");
  const distinct = (values) => [...new Set(values)];
  const searched = new Map();
  let shown = new Set(flips.map((flip) => flip.variant));
  let found = [];

  const haystack = (flip, item) => {
    if (!searched.has(flip)) {
      const texts = [item.id, item.prompt, item.expected, item.output, flip.output];
      searched.set(flip, texts.join("\n").toLowerCase());
    }
    return searched.get(flip);
  };
  const fits = (flip) => {
    const item = items[flip.item];
    const { variant, set, category, change, text } = form.elements;
    return (
      shown.has(flip.variant) &&
      (!variant.value || flip.variant === variant.value) &&
      (!set.value || item.set === set.value) &&
      (!category.value || item.category === category.value) &&
      CHANGES[change.value][1](flip, item) &&
      (!text.value.trim() || haystack(flip, item).includes(text.value.trim().toLowerCase()))
    );
  };
  const grow = () => {
    const from = list.childElementCount;
    const cards = found.slice(from, from + PAGE).map((flip, place) => card(flip, items[flip.item], baseline, from + place === 0));
    list.append(...cards);
    const left = found.length - list.childElementCount;
    more.hidden = left === 0;
    more.textContent = `Show ${Math.min(PAGE, left)} more of ${left}`;
    if (from) cards[0]?.querySelector("summary").focus();
  };
  const apply = () => {
    const { set, category } = form.elements;
    options(category, distinct(items.filter((item) => !set.value || item.set === set.value).map((item) => item.category)), "all");
    found = flips.filter(fits);
    const variant = form.elements.variant.value;
    const hidden = variant && !shown.has(variant) ? ` ${variant} is hidden by the choice of variants above.` : "";
    status.textContent = `${found.length.toLocaleString("en")} of ${flips.length.toLocaleString("en")} changed items.${hidden}`;
    list.replaceChildren();
    grow();
  };

  options(form.elements.variant, distinct(flips.map((flip) => flip.variant)), "all");
  options(form.elements.set, distinct(items.map((item) => item.set)), "all");
  options(form.elements.change, { entries: Object.entries(CHANGES).map(([value, [words]]) => [value, words]) });
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", grow);
  document.addEventListener("variants", ({ detail }) => {
    shown = detail;
    apply();
  });
  form.hidden = false;
}

const flipData = document.getElementById("flip-data");
if (flipData) startFlips(JSON.parse(flipData.textContent));
