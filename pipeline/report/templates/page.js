// The state of the page: its theme, and which variants it shows. Others listen to the event "variants", whose detail is
// the set of names.
const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");

function stored(value) {
  try {
    if (value) localStorage.setItem("quantgate-theme", value);
    return localStorage.getItem("quantgate-theme");
  } catch {
    return null; // a browser may deny storage to local files: the theme then lasts as long as the page
  }
}

function startTheme() {
  const button = document.getElementById("theme");
  const show = (theme) => {
    root.style.colorScheme = theme ?? "";
    button.setAttribute("aria-pressed", String((theme ?? (systemDark.matches ? "dark" : "light")) === "dark"));
  };
  show(stored());
  button.addEventListener("click", () => {
    const theme = button.getAttribute("aria-pressed") === "true" ? "light" : "dark";
    stored(theme);
    show(theme);
  });
  systemDark.addEventListener("change", () => show(stored()));
  button.hidden = false;
}

function startVariants() {
  const form = document.getElementById("variants");
  const all = document.getElementById("all-variants");
  const boxes = [...form.querySelectorAll("input")];
  const marked = [...document.querySelectorAll("[data-variant]")];
  const apply = () => {
    const shown = new Set(boxes.filter((box) => box.checked).map((box) => box.name));
    for (const element of marked) element.hidden = !shown.has(element.dataset.variant);
    all.hidden = shown.size === boxes.length;
    document.getElementById("variants-status").textContent = `${shown.size} of ${boxes.length} variants shown`;
    document.dispatchEvent(new CustomEvent("variants", { detail: shown }));
  };
  form.addEventListener("change", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  all.addEventListener("click", () => {
    for (const box of boxes) box.checked = true;
    boxes[0].focus(); // the button that had the focus is gone now
    apply();
  });
  // A click on a variant in a plot: it alone, or all of them again.
  document.addEventListener("pick-variant", ({ detail: name }) => {
    const alone = boxes.every((box) => box.checked === (box.name === name));
    for (const box of boxes) box.checked = alone || box.name === name;
    apply();
  });
  form.hidden = false;
  // Modules run before this event, so all of them listen by then.
  document.addEventListener("DOMContentLoaded", apply);
}

startTheme();
startVariants();
