// Charts by Vega-Lite. The trade-off plots get their points here, from what Python computed for every pair of axes.
const { charts, tradeoff } = JSON.parse(document.getElementById("chart-data").textContent);
const embedded = new Map(); // by the id of its place: the view, to be let go when it is drawn anew
const turns = new Map(); // by the id of its place: the number of the latest drawing

async function draw(place, spec, onPick) {
  const turn = (turns.get(place) ?? 0) + 1;
  turns.set(place, turn);
  // `ast`: expressions are interpreted, since the page's policy lets no text become code.
  const made = await vegaEmbed(`#${place}`, spec, { renderer: "svg", actions: false, ast: true });
  if (turns.get(place) !== turn) {
    made.finalize();
    return;
  }
  embedded.get(place)?.finalize();
  embedded.set(place, made);
  // The place has a name as a whole, and the numbers stand in tables; the parts of a drawing would only be noise.
  document.querySelector(`#${place} svg`).setAttribute("aria-hidden", "true");
  if (onPick) made.view.addEventListener("click", (_, mark) => mark?.datum?.variant && onPick(mark.datum.variant));
}

function withVariants(spec, shown) {
  const keep = (row) => row?.variant === undefined || shown.has(row.variant);
  return JSON.parse(JSON.stringify(spec), (_, value) => (Array.isArray(value) ? value.filter(keep) : value));
}

const pick = (name) => document.dispatchEvent(new CustomEvent("pick-variant", { detail: name }));

function drawCharts(shown) {
  for (const [place, spec] of Object.entries(charts)) {
    if (document.getElementById(place)) draw(place, withVariants(spec, shown), pick);
  }
}

// --- trade-off ---------------------------------------------------------------------------------------------------

const NAMED = 8;

function role(name, beaten) {
  if (name === tradeoff.pick) return "recommended";
  if (beaten === undefined) return "not placed";
  return beaten.length ? "dominated" : "on the frontier";
}

// Of two points that are each other's nearest across, the higher one has its label above, the other below.
function placeLabels(points) {
  for (const point of points) {
    const others = points.filter((other) => other !== point);
    const far = (other) => Math.abs(other.x - point.x);
    const nearest = others.reduce((best, other) => (best === null || far(other) < far(best) ? other : best), null);
    point.above = nearest === null || point.y > nearest.y || (point.y === nearest.y && point.variant > nearest.variant);
  }
}

function pointsOf(x, y, shown) {
  const places = new Map(Object.entries(tradeoff.places[`${Math.min(x, y)},${Math.max(x, y)}`] ?? {}));
  const drawn = [];
  const absent = [];
  for (const [name, values] of Object.entries(tradeoff.points)) {
    const [across, up] = [values[x], values[y]];
    const beaten = places.get(name);
    if (across.value === undefined || up.value === undefined) {
      const reasons = new Set([across, up].filter((each) => each.value === undefined).map((each) => each.shown));
      absent.push(`${name} (${[...reasons].join("; ")})`);
      continue;
    }
    if (x !== y && beaten === undefined) absent.push(`${name} (what decides on these axes was not measured)`);
    drawn.push({
      variant: name,
      role: x === y ? "on the frontier" : role(name, beaten),
      place: beaten?.length ? `dominated by ${beaten.join(", ")}` : role(name, beaten),
      x: across.value,
      y: up.value,
      x_low: across.low ?? across.value,
      x_high: across.high ?? across.value,
      y_low: up.low ?? up.value,
      y_high: up.high ?? up.value,
      x_shown: across.shown,
      y_shown: up.shown,
      strength: shown.has(name) ? 1 : 0.18,
    });
  }
  placeLabels(drawn);
  // Among many only those that matter, or that were asked for, have their name beside them.
  for (const point of drawn) {
    const asked = shown.size <= NAMED && shown.has(point.variant);
    point.label = drawn.length <= NAMED || point.role !== "dominated" || asked ? point.variant : "";
  }
  return { drawn, absent };
}

function specOf(x, y, points) {
  const [across, up] = [tradeoff.axes[x], tradeoff.axes[y]];
  const titles = { "{x}": across.title, "{y}": up.title, "{x-axis}": across.axis, "{y-axis}": up.axis };
  const filled = (_, value) => (Object.hasOwn(titles, value) ? titles[value] : value);
  const spec = JSON.parse(JSON.stringify(tradeoff.spec), filled);
  return { ...spec, datasets: { points } };
}

function startTradeoff(figure) {
  const [across, up] = figure.querySelectorAll("select");
  const place = figure.querySelector(".chart").id;
  let shown = new Set(Object.keys(tradeoff.points));
  const apply = () => {
    const [x, y] = [Number(across.value), Number(up.value)];
    const { drawn, absent } = pointsOf(x, y, shown);
    const title = `${tradeoff.axes[y].title} × ${tradeoff.axes[x].title}`;
    figure.querySelector(".title").textContent = title;
    figure.querySelector(".absent").textContent = absent.length ? `Not placed: ${absent.join("; ")}.` : "";
    figure.querySelector(".places").textContent = drawn.map((point) => `${point.variant}: ${point.place}`).join("; ");
    draw(place, specOf(x, y, drawn), pick);
  };
  for (const [select, chosen] of [[across, figure.dataset.x], [up, figure.dataset.y]]) {
    select.replaceChildren(...tradeoff.axes.map((axis, place) => new Option(axis.title, String(place))));
    select.value = chosen;
    select.addEventListener("change", apply);
  }
  figure.querySelector(".filters").hidden = false;
  document.addEventListener("variants", ({ detail }) => {
    shown = detail;
    apply();
  });
}

document.addEventListener("variants", ({ detail }) => drawCharts(detail));
if (tradeoff) for (const figure of document.querySelectorAll("figure.tradeoff")) startTradeoff(figure);
