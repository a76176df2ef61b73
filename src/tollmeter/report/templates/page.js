// SPDX-License-Identifier: Apache-2.0
// Draws the charts of the page's data island as they come into sight, follows the width of the column, and lets a
// finger, a keyboard and a search reach everything that is on the page.
"use strict";
(() => {
  const PANEL_LEAST = 205, PANEL_MOST = 3, AXIS = 84, GAP = 34, LEGEND_WIDTH = 720, SETTLED_MS = 200, ERRORS_ONLY = 1;
  const island = JSON.parse(document.getElementById("data").textContent);
  for (const { datasets } of Object.values(island.charts)) {
    for (const [name, columns] of Object.entries(datasets)) datasets[name] = rowsOf(Object.entries(columns));
  }

  const plots = [...document.querySelectorAll(".plot")];
  const refuse = () => Promise.reject(new Error("this page loads nothing"));

  // Data come by column; a row has what is not null.
  function rowsOf(columns) {
    const told = (place) => columns.filter(([, values]) => values[place] !== null).map(([name, values]) => [name, values[place]]);
    return (columns[0]?.[1] ?? []).map((_, place) => Object.fromEntries(told(place)));
  }

  function part(name, text) {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  }

  // ---- what a mark says ----------------------------------------------------------------------------------------

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  document.body.append(tip);

  function tell(pairs, x, y) {
    const list = document.createElement("dl");
    for (const [name, said] of pairs) if (said !== "" && said !== "undefined") list.append(part("dt", name), part("dd", said));
    tip.replaceChildren(list);
    tip.hidden = false;
    place(x, y);
  }

  function tooltip(_, event, item, value) {
    if (value === null || value === undefined || value === "") tip.hidden = true;
    else tell(Object.entries(value), event.clientX, event.clientY);
  }

  function place(x, y) {
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
    const top = y + 14 + box.height > innerHeight ? y - 14 - box.height : y + 14;
    tip.style.left = `${Math.max(6, left)}px`;
    tip.style.top = `${Math.max(6, top)}px`;
  }

  const marksOf = (plot) => [...plot.querySelectorAll("[role='graphics-symbol'][aria-label]")];

  // Vega writes what a mark says into its label, one field after the other.
  function tellMark(mark) {
    const box = mark.getBoundingClientRect();
    const fields = mark.getAttribute("aria-label").split("; ").map((field) => {
      const at = field.indexOf(": ");
      return at < 0 ? ["", field] : [field.slice(0, at), field.slice(at + 2)];
    });
    tell(fields, box.x + box.width / 2, box.y + box.height / 2);
  }

  // A finger points at nothing before it taps; arrow keys go from mark to mark where the chart has the focus.
  function reachable(plot) {
    let at = -1;
    plot.addEventListener("click", (event) => {
      const mark = event.target.closest("[role='graphics-symbol'][aria-label]");
      if (mark) tellMark(mark);
    });
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") tip.hidden = true;
      if (!step) return;
      const marks = marksOf(plot);
      if (!marks.length) return;
      at = Math.min(marks.length - 1, Math.max(0, at + step));
      plot.querySelector(".at")?.classList.remove("at");
      marks[at].classList.add("at");
      tellMark(marks[at]);
      event.preventDefault();
    });
    plot.addEventListener("blur", () => { tip.hidden = true; plot.querySelector(".at")?.classList.remove("at"); });
  }

  // ---- drawing -------------------------------------------------------------------------------------------------

  // A legend in as many columns as fit, and panels in as many as stay readable.
  function fitted(spec, width) {
    const fit = structuredClone(spec);
    fitWords(fit, width);
    const side = squared(fit.usermeta, width);
    if (side) Object.assign(fit.facet ? fit.spec : fit, { width: side, height: side });
    if (!fit.facet) return fit;
    const columns = columnsFor(fit.usermeta.panels, Math.floor((width - AXIS) / PANEL_LEAST));
    fit.columns = side ? Math.max(1, Math.floor((width - AXIS) / (side + GAP))) : columns;
    if (!side) fit.spec.width = Math.floor((width - AXIS - GAP * (columns - 1)) / columns);
    return fit;
  }

  // The side of a matrix whose cells are as wide as they are high; none for any other chart.
  function squared(usermeta, width) {
    return usermeta?.cells ? usermeta.cells * Math.min(usermeta.step, Math.floor((width - AXIS) / usermeta.cells)) : 0;
  }

  // Of the columns that fit, those that leave the fewest holes in the last line; the more the better among equals.
  function columnsFor(panels, most) {
    const holes = (columns) => (columns - (panels % columns)) % columns;
    let best = Math.min(2, most, panels) || 1;
    for (let columns = best + 1; columns <= Math.min(most, PANEL_MOST, panels); columns++) {
      if (holes(columns) <= holes(best)) best = columns;
    }
    return best;
  }

  function fitWords(node, width) {
    if (node === null || typeof node !== "object") return;
    if (node.legend && node.legend.columns) {
      const room = Math.min(width - AXIS, LEGEND_WIDTH);
      node.legend.columns = Math.max(1, Math.floor((node.legend.columns * room) / LEGEND_WIDTH));
      node.legend.labelLimit = room;
    }
    for (const [name, inner] of Object.entries(node)) if (name !== "data" && name !== "datasets") fitWords(inner, width);
  }

  const drawn = new Map();
  async function draw(plot) {
    const width = plot.clientWidth;
    const chart = island.charts[plot.dataset.chart];
    drawn.get(plot)?.result.finalize();
    const result = await vegaEmbed(plot, fitted(chart, width), {
      actions: false, ast: true, config: island.config, defaultStyle: false, loader: { load: refuse, sanitize: refuse },
      logLevel: ERRORS_ONLY, mode: "vega-lite", renderer: "svg", tooltip,
    });
    drawn.set(plot, { result, width });
  }

  // A chart in a part that is folded waits until it is opened: it has no width before.
  const isSeen = (plot) => plot.clientWidth && !plot.closest("details:not([open])");
  async function drawAll() {
    delete document.documentElement.dataset.drawnFor;
    for (const plot of plots) {
      if (!isSeen(plot) || drawn.get(plot)?.width === plot.clientWidth) continue;
      await draw(plot);
      await new Promise((resume) => setTimeout(resume));
    }
    document.documentElement.dataset.drawnFor = String(innerWidth);
  }

  plots.forEach(reachable);
  let waiting = drawAll();
  const again = () => { waiting = waiting.then(drawAll); };
  let timer = 0;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(again, SETTLED_MS);
  });
  addEventListener("toggle", again, { capture: true });
  addEventListener("wheel", () => { tip.hidden = true; }, { passive: true });

  // ---- links, data, search -------------------------------------------------------------------------------------

  function unfold(target) {
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
  }

  async function follow() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    unfold(target);
    target.scrollIntoView();
    await waiting;
    target.scrollIntoView();
  }
  addEventListener("hashchange", follow);
  if (location.hash) follow();

  const quoted = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

  // Every set of data of a chart below each other, the largest first, each under its own names.
  function csv(spec) {
    const parts = Object.values(spec.datasets ?? {}).filter((rows) => rows.length).sort((a, b) => b.length - a.length).map((rows) => {
      const names = [...new Set(rows.flatMap(Object.keys))];
      return [names, ...rows.map((row) => names.map((name) => String(row[name] ?? "")))];
    });
    return parts.map((lines) => lines.map((line) => line.map(quoted).join(",")).join("\n")).join("\n\n") + "\n";
  }

  for (const button of document.querySelectorAll("button.csv")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv(island.charts[button.dataset.of])], { type: "text/csv" }));
      link.download = `${button.dataset.of}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  const search = document.getElementById("search"), every = document.getElementById("all-tolls");
  const sought = [...document.querySelectorAll("#tolls tbody tr, article, #families figure")];
  const LISTED = "#memory tbody tr, #inferred tbody tr, .findings > li, #tolls tbody tr:not(.group), main figure";
  const listed = [...document.querySelectorAll(LISTED)].filter((one) => !one.closest("#families"));
  listed.forEach((one, place) => { one.id ||= `found-${place}`; });
  const hits = document.getElementById("hits"), MOST_HITS = 12;
  const ALSO = {
    "memory": "dram ram main", "system call": "syscall", "switch": "context switch", "page fault": "pagefault",
    "contended": "smt hyperthread core shared", "translation": "tlb", "prefetch": "prefetcher", "create and end": "fork exec spawn",
    "ask an object": "ipc call round trip", "floating": "flops fpu",
  };

  // All that a person may call it: its words, those of its columns, its table, and other common names.
  function namesOf(one) {
    const columns = [...one.querySelectorAll("[data-name]")].map((cell) => cell.dataset.name);
    const said = one.textContent.toLowerCase();
    const also = Object.keys(ALSO).filter((name) => said.includes(name)).map((name) => ALSO[name]);
    return [said, one.closest("table")?.id ?? "", ...columns, ...also].join(" ").toLowerCase();
  }
  const words = new Map([...sought, ...listed].map((one) => [one, namesOf(one)]));
  const folded = [...document.querySelectorAll("#families > details")];

  const joined = (node, less) => [...node.childNodes].filter((one) => !one.matches?.(less)).map((one) => one.textContent).join(" ").trim();

  // A row by its name and what was sought of it; all else by its heading.
  function hit(one, wanted) {
    const cells = [...one.querySelectorAll("td[data-name]")].filter((cell) => wanted.some((word) => cell.dataset.name.includes(word)));
    const values = cells.map((cell) => `${cell.dataset.name} ${joined(cell.querySelector(".figure") ?? cell, "small")}`);
    const link = part("a", [joined(one.querySelector("th, h3, .claim"), "small, .own, .sign"), ...values].join(" \u00b7 "));
    link.href = `#${one.id}`;
    const item = document.createElement("li");
    item.append(link);
    return item;
  }

  // Whether all tolls were unfolded before something was sought.
  let before = null;
  function seek() {
    const wanted = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (one) => wanted.every((word) => words.get(one).includes(word));
    for (const one of sought) one.hidden = wanted.length > 0 && !fits(one);
    if (every && wanted.length) {
      before ??= every.checked;
      every.checked = true;
    } else if (every && before !== null) {
      every.checked = before;
      before = null;
    }
    for (const family of folded) {
      const found = wanted.length > 0 && sought.some((one) => !one.hidden && family.contains(one));
      family.hidden = wanted.length > 0 && !found;
      if (found) family.open = true;
    }
    const fitting = wanted.length ? listed.filter(fits) : [];
    hits.replaceChildren(...fitting.slice(0, MOST_HITS).map((one) => hit(one, wanted)));
    const number = new Set([...sought.filter((one) => !one.hidden), ...fitting]).size;
    document.getElementById("found").textContent = wanted.length ? `${number} found` : "";
  }
  if (search) {
    search.closest("[hidden]")?.removeAttribute("hidden");
    search.addEventListener("input", seek);
  }

  // The page of a run that is measured comes anew every few seconds: what its reader opened or sought stays.
  const KEPT = `read ${location.pathname}`;
  const folds = [...document.querySelectorAll("details")];
  const nameOf = (fold) => {
    const owner = fold.parentElement.closest("[id]") ?? document.body;
    return fold.id || `${owner.id} ${[...owner.querySelectorAll("details")].indexOf(fold)}`;
  };
  let store = null;
  try { store = sessionStorage; } catch { /* forbidden: then each fold is as it was made */ }
  addEventListener("pagehide", () => {
    store?.setItem(KEPT, JSON.stringify([search?.value ?? "", folds.map((fold) => [nameOf(fold), fold.open])]));
  });
  if (performance.getEntriesByType("navigation")[0]?.type === "reload") {
    const [sought, open] = JSON.parse(store?.getItem(KEPT) ?? '["", []]');
    const were = new Map(open);
    for (const fold of folds) fold.open = were.get(nameOf(fold)) ?? fold.open;
    if (search && sought) { search.value = sought; seek(); }
  }

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.classList.remove("here");
      links.get(entry.target.id)?.classList.add("here");
    }
  }, { rootMargin: "-10% 0px -75% 0px" });
  for (const id of links.keys()) {
    const target = document.getElementById(id);
    if (target && id !== "families" && id !== "answer") seen.observe(target);
  }
})();
