// Tables: a click on a heading sorts, a third one restores the order. What has no value comes last.
function key(row, index, numeric) {
  const cell = row.cells[index];
  if (!numeric) return cell.textContent.trim();
  return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
}

function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
}

function makeSortable(table) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = all("thead th", table);
  heads.forEach((head, index) => {
    head.querySelector("button").addEventListener("click", () => {
      const next = { null: "ascending", ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (next) head.setAttribute("aria-sort", next);
      const numeric = head.classList.contains("num");
      const sign = next === "descending" ? -1 : 1;
      const keyed = original.map((row) => [row, next && key(row, index, numeric)]);
      if (next) keyed.sort((a, b) => compare(a[1], b[1], sign));
      body.append(...keyed.map(([row]) => row));
    });
  });
}
