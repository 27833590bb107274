// A table that sorts by any column, filters by words, and shows as many rows as one asks for.
//
//   new DataTable({
//     name: "peak operators",
//     rows: [{name: "aten::mm", calls: 3}, ...],
//     columns: [{key: "name", label: "Name", kind: "name"}, {key: "calls", label: "Calls", kind: "count"}],
//     sort: "calls",
//   }).element
//
// A filter in double quotes is a name: the rows that have it and no other.
// Kinds: name and text (left, ascending at first), flag, and what Format has (right, descending).
// indent: the column that says how deep rows are, for rows in the order of a tree; they keep it, and are
// indented, until a column sorts them.
// bar: with a bar as long as the share of the column's largest value. A column that is empty in all
// rows is not shown, unless it is the first.
"use strict";

const DataTable = (() => {
  const { el, fill } = Dom;
  const ROWS_AT_FIRST = 20;
  // Below it a table needs no filter.
  const FEW_ROWS = 8;
  const TEXT_KINDS = new Set(["name", "text"]);

  const isText = (column) => TEXT_KINDS.has(column.kind);
  const isEmpty = (value) =>
    value === undefined || value === null || value === "" || value === false || value === -1;

  function shown(column, value) {
    if (isEmpty(value)) return column.kind === "flag" ? "" : "–";
    if (isText(column)) return value;
    if (column.kind === "flag") return "✓";
    return Format[column.kind](value);
  }

  function compare(column, a, b) {
    const x = a[column.key], y = b[column.key];
    if (isEmpty(x) || isEmpty(y)) return Number(isEmpty(x)) - Number(isEmpty(y));
    return isText(column) ? x.localeCompare(y) : x - y;
  }

  function csvCell(value) {
    let text = isEmpty(value) ? "" : String(value);
    // A spreadsheet would compute what begins so; a capture's names are no formulas.
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  return class DataTable {
    constructor({ name, rows, columns, sort, total, note, indent }) {
      this.name = name;
      this.rows = rows;
      this.columns = columns.filter((column, i) =>
        i === 0 || rows.some((row) => !isEmpty(row[column.key]) && row[column.key] !== 0));
      this.indent = indent;
      // null: as a tree.
      this.sortColumn = this.columns.find((column) => column.key === sort) || (indent ? null : this.columns[0]);
      this.descending = this.sortColumn !== null && !isText(this.sortColumn);
      this.filterText = "";
      this.limit = ROWS_AT_FIRST;
      // Rows there were before the page's own limit.
      this.total = Math.max(total || 0, rows.length);
      this.most = {};
      for (const column of this.columns) {
        if (column.bar) this.most[column.key] = Math.max(0, ...rows.map((row) => row[column.key] || 0));
      }
      this.build(note);
      this.update();
    }

    build(note) {
      this.input = el("input", {
        type: "search",
        placeholder: `Filter ${this.name}`,
        "aria-label": `Filter ${this.name}`,
        oninput: () => this.filter(this.input.value),
      });
      this.counter = el("span", { class: "muted", role: "status" });
      this.headers = this.columns.map((column) => this.header(column));
      this.body = el("tbody");
      this.more = el("button", { type: "button", class: "quiet", onclick: () => this.showAll() });
      this.less = el("button", { type: "button", class: "quiet", onclick: () => this.showFew() }, "Show fewer");
      this.element = el("div", { class: "data-table" },
        this.rows.length < FEW_ROWS ? null : el("div", { class: "toolbar" },
          this.input, this.counter, el("span", { class: "grow" }),
          el("button", { type: "button", class: "quiet", onclick: () => this.save() }, "Save as CSV")),
        note ? el("p", { class: "note" }, note) : null,
        el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": this.name },
          el("table", {}, el("thead", {}, el("tr", {}, this.headers)), this.body)),
        el("div", { class: "toolbar" }, this.more, this.less));
    }

    header(column) {
      return el("th", { scope: "col", class: isText(column) ? "" : "number" },
        el("button", { type: "button", title: column.help, onclick: () => this.sortBy(column.key) },
          column.label, el("span", { class: "arrow", "aria-hidden": "true" })));
    }

    sortBy(key) {
      const column = this.columns.find((candidate) => candidate.key === key);
      if (!column) return;
      this.descending = column === this.sortColumn ? !this.descending : !isText(column);
      this.sortColumn = column;
      this.update();
    }

    // Rows in which every word of `text` stands in one of the texts; or, quoted, of this name.
    filter(text) {
      this.filterText = text;
      if (this.input.value !== text) this.input.value = text;
      this.limit = ROWS_AT_FIRST;
      this.update();
    }

    // The rows of this name, for links. onShowOnly(), if set, puts the table where it is seen.
    showOnly(name) {
      if (this.onShowOnly) this.onShowOnly();
      this.filter(`"${name}"`);
    }

    showAll() {
      this.limit = Infinity;
      this.update();
    }

    showFew() {
      this.limit = ROWS_AT_FIRST;
      this.update();
    }

    has(name) {
      return this.rows.some((row) => row.name === name);
    }

    matching() {
      const quoted = /^"(.*)"$/s.exec(this.filterText);
      if (quoted) return this.rows.filter((row) => row.name === quoted[1]);
      const words = this.filterText.toLowerCase().split(/\s+/).filter(Boolean);
      if (words.length === 0) return this.rows;
      const texts = this.columns.filter(isText);
      return this.rows.filter((row) => {
        const text = texts.map((column) => row[column.key] || "").join("\n").toLowerCase();
        return words.every((word) => text.includes(word));
      });
    }

    visibleRows() {
      if (!this.sortColumn) return this.matching();
      const sign = this.descending ? -1 : 1;
      const column = this.sortColumn;
      // Rows without a value come last either way.
      return [...this.matching()].sort((a, b) => {
        const empty = Number(isEmpty(a[column.key])) - Number(isEmpty(b[column.key]));
        return empty !== 0 ? empty : sign * compare(column, a, b);
      });
    }

    update() {
      const rows = this.visibleRows();
      this.columns.forEach((column, i) => {
        const sorted = column === this.sortColumn;
        this.headers[i].setAttribute("aria-sort",
          sorted ? (this.descending ? "descending" : "ascending") : "none");
      });
      fill(this.body, rows.slice(0, this.limit).map((row) => this.row(row)),
        rows.length === 0
          ? el("tr", {}, el("td", { colspan: this.columns.length, class: "muted" }, "No row has all these words."))
          : null);
      this.counter.textContent = this.countText(rows.length);
      this.more.hidden = rows.length <= this.limit;
      this.more.textContent = `Show all ${Format.count(rows.length)} rows`;
      this.less.hidden = this.limit !== Infinity || rows.length <= ROWS_AT_FIRST;
    }

    countText(matching) {
      const all = this.rows.length;
      const rows = matching === all ? `${Format.count(all)} rows` : `${Format.count(matching)} of ${Format.count(all)} rows`;
      return this.total > all ? `${rows}, the first of ${Format.count(this.total)}` : rows;
    }

    row(row) {
      return el("tr", {}, this.columns.map((column, i) => this.cell(column, row, i)));
    }

    cell(column, row, index) {
      const value = row[column.key];
      const text = shown(column, value);
      if (isText(column)) {
        const wrap = (event) => event.currentTarget.classList.toggle("wrapped");
        const depth = index === 0 && !this.sortColumn ? row[this.indent] || 0 : 0;
        return el(index === 0 ? "th" : "td", {
          style: depth > 0 ? { "padding-left": `${0.6 + Math.min(depth, 24)}rem` } : null, class: column.kind, title: text, onclick: text.length > 40 ? wrap : null,
          scope: index === 0 ? "row" : null,
        }, text);
      }
      const most = this.most[column.key];
      const cell = el("td", { class: "number" }, text);
      if (most > 0 && value > 0) {
        cell.classList.add("bar");
        cell.style.setProperty("--part", `${(100 * value) / most}%`);
      }
      return cell;
    }

    save() {
      const lines = [this.columns.map((column) => csvCell(column.label)),
        ...this.visibleRows().map((row) => this.columns.map((column) => csvCell(row[column.key])))];
      Dom.download(`${this.name.replaceAll(" ", "-")}.csv`, "text/csv", lines.map((line) => line.join(",") + "\r\n").join(""));
    }
  };
})();

// Rows of an object of columns: {a: [1, 2], b: [3, 4]} is [{a: 1, b: 3}, {a: 2, b: 4}].
function rowsOf(columns) {
  const keys = Object.keys(columns || {});
  if (keys.length === 0) return [];
  return columns[keys[0]].map((_, i) => Object.fromEntries(keys.map((key) => [key, columns[key][i]])));
}
