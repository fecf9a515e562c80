// Tables that sort by the buttons in their headers and hide columns. Without scripts they are plain tables.
const NEXT = { none: "first", first: "second", second: "none" };

function key(row, column) {
  const cell = row.cells[column];
  if (cell === undefined) return null;
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  if (!cell.classList.contains("n")) return cell.textContent.trim().toLowerCase();
  const number = Number.parseFloat(cell.textContent.replaceAll(",", ""));
  return Number.isNaN(number) ? null : number;
}

// What is missing stays last in both directions.
function compare(one, other, sign) {
  if (one === null || other === null) return (one === null) - (other === null);
  return sign * (typeof one === "string" ? one.localeCompare(String(other)) : one - other);
}

function sortRows(table, column, sign) {
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
    const place = (row) => Number((row.dataset.place ??= String(rows.indexOf(row))));
    for (const row of rows) place(row);
    rows.sort((one, other) => (sign && compare(key(one, column), key(other, column), sign)) || place(one) - place(other));
    body.append(...rows);
  }
}

// Metrics sort best first, other numbers largest first, words by the alphabet.
function firstSign(header) {
  if (header.dataset.better) return header.dataset.better === "high" ? -1 : 1;
  return header.classList.contains("n") ? -1 : 1;
}

function startSorting(table) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    header.dataset.state = "none";
    button.addEventListener("click", () => {
      const state = NEXT[header.dataset.state];
      for (const other of headers) {
        other.dataset.state = "none";
        other.removeAttribute("aria-sort");
      }
      header.dataset.state = state;
      const sign = { none: 0, first: firstSign(header), second: -firstSign(header) }[state];
      if (sign) header.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      sortRows(table, column, sign);
    });
  });
}

function startColumns(table) {
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  const choices = document.createElement("fieldset");
  const legend = document.createElement("legend");
  summary.textContent = table.dataset.columns;
  legend.textContent = "Shown";
  choices.append(legend);
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    if (column === 0) return; // the variant's name stays
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => {
      for (const row of table.rows) if (row.cells[column]) row.cells[column].hidden = !box.checked;
    });
    label.append(box, ` ${header.textContent.trim()}`);
    choices.append(label);
  });
  details.className = "columns";
  details.append(summary, choices);
  table.closest(".scroll").before(details);
}

// Columns first: a header's text is its name before there is a button in it.
for (const table of document.querySelectorAll("table[data-columns]")) startColumns(table);
for (const table of document.querySelectorAll("table[data-sort]")) startSorting(table);
