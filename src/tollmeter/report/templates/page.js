// SPDX-License-Identifier: Apache-2.0
// Draws the charts of the page's data island, one after the other, and follows the width of the column.
"use strict";
(() => {
  const PANEL_LEAST = 205, PANEL_MOST = 3, AXIS = 84, GAP = 34, LEGEND_WIDTH = 720, SETTLED_MS = 200, ERRORS_ONLY = 1;
  const island = JSON.parse(document.getElementById("data").textContent);
  const plots = [...document.querySelectorAll(".plot")];
  const refuse = () => Promise.reject(new Error("this page loads nothing"));

  function part(name, text) {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  }

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  function tooltip(_, event, item, value) {
    tip.hidden = value === null || value === undefined || value === "";
    if (tip.hidden) return;
    const list = document.createElement("dl");
    for (const [name, said] of Object.entries(value)) {
      if (said !== "" && said !== "undefined") list.append(part("dt", name), part("dd", said));
    }
    tip.replaceChildren(list);
    place(event.clientX, event.clientY);
  }

  function place(x, y) {
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
    const top = y + 14 + box.height > innerHeight ? y - 14 - box.height : y + 14;
    tip.style.left = `${Math.max(6, left)}px`;
    tip.style.top = `${Math.max(6, top)}px`;
  }

  // A legend in as many columns as fit, and panels in as many as stay readable.
  function fitted(spec, width) {
    const fit = structuredClone(spec);
    fitLegends(fit, width);
    if (!fit.facet) return fit;
    const columns = columnsFor(fit.usermeta.panels, Math.floor((width - AXIS) / PANEL_LEAST));
    fit.columns = columns;
    fit.spec.width = Math.floor((width - AXIS - GAP * (columns - 1)) / columns);
    return fit;
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

  function fitLegends(node, width) {
    if (node === null || typeof node !== "object") return;
    if (node.legend && node.legend.columns) {
      node.legend.columns = Math.max(1, Math.floor((node.legend.columns * Math.min(width, LEGEND_WIDTH)) / LEGEND_WIDTH));
    }
    for (const [name, inner] of Object.entries(node)) if (name !== "data" && name !== "datasets") fitLegends(inner, width);
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

  async function drawAll() {
    for (const plot of plots) {
      if (drawn.get(plot)?.width === plot.clientWidth) continue;
      await draw(plot);
      await new Promise((resume) => setTimeout(resume));
    }
    document.documentElement.dataset.drawnFor = String(innerWidth);
  }

  let waiting = drawAll();
  let timer = 0;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { waiting = waiting.then(drawAll); }, SETTLED_MS);
  });
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

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
    if (target && id !== "charts" && id !== "probes" && id !== "answer") seen.observe(target);
  }
})();
