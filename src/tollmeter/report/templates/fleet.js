// SPDX-License-Identifier: Apache-2.0
// Draws each map of rows (lines) and nodes (columns) on a canvas, one pixel a cell, and tells the cell that is pointed
// at. A canvas of 2,000 nodes and 3,000 rows has 6 million pixels, and is drawn once.
"use strict";
const maps = JSON.parse(document.getElementById("data").textContent).maps;
const NONE = -128, FULL = 0.1, MOST_PIXELS = 8192;
const style = getComputedStyle(document.documentElement);

function rgb(name) {
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = style.getPropertyValue(name).trim();
  probe.fillRect(0, 0, 1, 1);
  return probe.getImageData(0, 0, 1, 1).data;
}

function said(map, line, column) {
  const step = map.steps[line * map.nodes.length + column];
  const where = `${map.nodes[column]}, ${map.rows[line]}: `;
  if (step === NONE) return where + "no number";
  const share = Math.expm1(Math.abs(step) / map.scale) * 100;
  return where + (Math.abs(step) === 127 ? "more than " : "") + `${share.toFixed(1)} % ` +
    (step > 0 ? "slower or more" : "faster or less") + " than the median of its peers";
}

function draw(map) {
  const {canvas, lines, columns} = map, ground = rgb("--ground"), ink = rgb("--line");
  const size = Math.max(1, Math.min(12, Math.floor(canvas.parentElement.clientWidth / Math.max(1, columns.length))));
  const tall = Math.max(size, Math.min(12, Math.floor(480 / Math.max(1, lines.length))));
  canvas.width = Math.max(1, Math.min(MOST_PIXELS, columns.length));
  canvas.height = Math.max(1, Math.min(MOST_PIXELS, lines.length));
  canvas.style.width = `${canvas.width * size}px`;
  canvas.style.height = `${canvas.height * tall}px`;
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  for (let y = 0, at = 0; y < canvas.height; y++) {
    for (let x = 0; x < canvas.width; x++, at += 4) {
      const step = map.steps[lines[y] * map.nodes.length + columns[x]];
      const far = Math.min(1, Math.abs(step) / (map.scale * FULL));
      const end = step === NONE ? ink : step > 0 ? [200, 40, 40] : [30, 90, 200];
      const part = step === NONE ? 1 : far;
      for (let k = 0; k < 3; k++) image.data[at + k] = ground[k] + (end[k] - ground[k]) * part;
      image.data[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

function choose(map, y, x) {
  if (y < 0 || x < 0 || y >= map.lines.length || x >= map.columns.length) return;
  map.at = [y, x];
  map.caption.textContent = said(map, map.lines[y], map.columns[x]);
}

function filter(map, text) {
  const has = (name) => name.toLowerCase().includes(text.toLowerCase());
  const all = (names) => names.map((_, at) => at);
  const rows = all(map.rows).filter((at) => has(map.rows[at])), nodes = all(map.nodes).filter((at) => has(map.nodes[at]));
  map.lines = rows.length ? rows : all(map.rows);
  map.columns = nodes.length ? nodes : all(map.nodes);
  draw(map);
}

maps.forEach((map, number) => {
  const bytes = atob(map.cells);
  map.steps = Int8Array.from({length: bytes.length}, (_, at) => bytes.charCodeAt(at));
  map.canvas = document.querySelector(`canvas[data-map="${number}"]`);
  map.caption = document.getElementById(`cell-${number}`);
  map.at = [0, 0];
  map.canvas.addEventListener("pointermove", (event) => {
    const box = map.canvas.getBoundingClientRect();
    choose(map, Math.floor((event.clientY - box.top) / box.height * map.canvas.height),
      Math.floor((event.clientX - box.left) / box.width * map.canvas.width));
  });
  map.canvas.addEventListener("keydown", (event) => {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (!step) return;
    event.preventDefault();
    choose(map, map.at[0] + step[0], map.at[1] + step[1]);
  });
  document.querySelector(`.filter[data-map="${number}"]`).addEventListener("input", (event) => filter(map, event.target.value));
  filter(map, "");
});
addEventListener("resize", () => maps.forEach(draw));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => maps.forEach(draw));
