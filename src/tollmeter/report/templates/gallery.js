// SPDX-License-Identifier: Apache-2.0
// A list of machines, and any of them side by side. What is shown stands in the address: nothing for the list, the id of
// a machine, or several with commas. What a machine measured is in a script of its own, which calls show(); a page can
// load a script from a disk, but no data. Every text goes into the page as text.
"use strict";
const given = JSON.parse(document.getElementById("data").textContent);
const known = new Map(given.machines.map((one) => [one.id, one]));
const whole = new Map(given.loads ? [] : known), ticked = new Set();
const COLUMNS = [["name", "CPU"], ["cpus", "CPUs"], ["load", "memory latency"], ["read", "memory read"], ["call", "system call"], ["memory", "memory"], ["clock", "core clock"], ["day", "day"]];
const LISTED = ["hypervisor", "kernel", "verdict", "suite", ...COLUMNS.map(([key]) => key)];
const SERIES = 6, LEAST_SPAN = Math.log(2), WIDEST_CELL = 44, NORMAL_STATES = new Set(["uncontended", ""]);
const at = (id) => document.getElementById(id);

function make(tag, words, ...inside) {
  const svg = ["svg", "path", "line", "text", "circle", "title"].includes(tag);
  const one = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(words ?? {})) one.setAttribute(name, value);
  one.append(...inside);
  return one;
}

globalThis.show = (machine) => { if (known.has(machine.id)) whole.set(machine.id, machine); };

function load(id) {
  if (whole.has(id)) return Promise.resolve();
  return new Promise((done) => {
    const script = make("script", {src: `machines/${id}.js`});
    script.onload = script.onerror = () => { script.remove(); done(); };
    document.head.append(script);
  });
}

function digits(value) { return Number(value.toPrecision(3)).toLocaleString("en", {maximumSignificantDigits: 3}); }
function time(ns) {
  let step = 0;
  for (; ns >= 1000 && step < 3; step++) ns /= 1000;
  return `${digits(ns)} ${["ns", "µs", "ms", "s"][step]}`;
}
function figure([value, sure] = ["–", ""]) { return make("td", {class: "number"}, value, make("small", {}, sure)); }

// New over old with its 95 % interval: half-widths of logarithms add as squares.
function ratio(first, other) {
  const value = other.value / first.value;
  if (!(first.value > 0 && other.value > 0)) return null;
  const half = (one) => one.low > 0 && one.high > 0 ? Math.log(one.high / one.low) / 2 : Infinity;
  const reach = Math.hypot(half(first), half(other));
  return {value, low: value * Math.exp(-reach), high: value * Math.exp(reach)};
}

function ratioCell(first, other) {
  const found = first && other && first.unit === other.unit && ratio(first, other);
  if (!found) return make("td", {class: "number"}, "–");
  const sure = Number.isFinite(found.high) && found.low > 0;
  const apart = sure && (found.low > 1 || found.high < 1);
  const states = NORMAL_STATES.has(first.state) === NORMAL_STATES.has(other.state) ? "" : "SMT contention differs";
  const cell = make("td", {class: apart ? "number apart" : "number"}, digits(found.value));
  cell.append(make("small", {}, sure ? ` ${digits(found.low)} to ${digits(found.high)}` : " no interval"), make("small", {}, states));
  return cell;
}

function table(title, heads, rows) {
  const scroll = make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": title});
  const head = make("tr", {}, ...heads.map((name, place) => make("th", {scope: "col", class: place ? "number" : ""}, name)));
  for (const row of rows) [...row.cells].forEach((cell, place) => { if (place) cell.dataset.name = heads[place]; });
  scroll.append(make("table", {class: "answer"}, make("thead", {}, head), make("tbody", {}, ...rows)));
  return scroll;
}

function line(first, ...cells) {
  return make("tr", {}, make("th", {scope: "row"}, first), ...cells.map((cell) => cell instanceof Node ? cell : make("td", {class: "number"}, cell)));
}

function letter(place) { return String.fromCharCode(65 + place % 26); }
// Of several machines, in the heads of tables; `key` has their names. One needs none.
function letters(machines) { return machines.map((_, place) => machines.length > 1 ? letter(place) : ""); }
function labels(machines) { return machines.map((one, place) => `${letters(machines)[place]} ${one.name}`.trim()); }

function key(machines) {
  return make("ul", {class: "legend"}, ...machines.map((one, place) => make("li", {}, make("strong", {}, letter(place)), ` ${one.name}`)));
}

function about(machines) {
  const facts = [["CPUs", "cpus"], ["core clock", "clock"], ["memory", "memory"], ["kernel", "kernel"], ["hypervisor", "hypervisor"], ["suite", "suite"], ["day", "day"], ["verdict", "verdict"], ["Tollmeter", "tollmeter"]];
  const rows = facts.map(([name, key]) => line(name, ...machines.map((one) => String(one[key] || "–"))));
  const names = [...new Set(machines.flatMap((one) => Object.keys(one.facts)))].sort();
  const differ = names.filter((name) => machines.length > 1 && new Set(machines.map((one) => one.facts[name])).size > 1);
  rows.push(...differ.map((name) => line(name.replaceAll("_", " "), ...machines.map((one) => one.facts[name] ?? "–"))));
  for (const row of rows) row.classList.add("fact");
  return table("Machines", ["", ...letters(machines)], rows);
}

// A line for each machine of a level: columns for each machine were cut off from the third on.
function hierarchy(machines) {
  const found = [...new Set(machines.flatMap((one) => one.hierarchy.map((level) => level.level)))];
  const levels = found.sort((one, other) => (one === "memory") - (other === "memory") || one.localeCompare(other));
  const rows = levels.flatMap((name) => machines.flatMap((one, place) => {
    const level = one.hierarchy.find((each) => each.level === name);
    return level ? [line(`${name} ${letters(machines)[place]}`.trim(), ...[0, 1, 2].map((at) => figure(level.figures[at])))] : [];
  }));
  return table("Memory", ["", "size", "latency", "read"], rows);
}

function tolls(machines) {
  const all = new Map();
  machines.forEach((one, place) => one.tolls.forEach((toll) => {
    if (!all.has(toll.key)) all.set(toll.key, []);
    all.get(toll.key)[place] = toll;
  }));
  const rows = [...all.values()].map((some) => line(some.find(Boolean).toll,
    ...machines.map((_, place) => figure(some[place]?.figure)),
    ...machines.slice(1).map((_, place) => ratioCell(some[0], some[place + 1]))));
  const [first, ...others] = letters(machines);
  return table("Tolls", ["", first, ...others, ...others.map((name) => `${name} / ${first}`)], rows);
}

function colour(name) {
  const context = make("canvas").getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
}

function cores(machines) {
  const maps = make("div", {class: "maps"}), values = machines.flatMap((one) => one.pairs.map((pair) => pair[2]));
  // Math.min takes no more than some 100,000 arguments, and a machine of 512 CPUs has 130,000 pairs.
  const [least, most] = values.reduce(([down, up], ns) => [Math.min(down, ns), Math.max(up, ns)], [Infinity, 0]);
  const low = Math.log(least), span = Math.max(LEAST_SPAN, Math.log(most) - low);
  const scale = [1, 2, 3, 4, 5, 6, 7].map((step) => colour(`--heat-${step}`));
  machines.forEach((one, place) => {
    if (!one.pairs.length) return;
    const cpus = [...new Set(one.pairs.flatMap((pair) => pair.slice(0, 2)))].sort((a, b) => a - b);
    const canvas = make("canvas", {width: cpus.length, height: cpus.length, role: "img", "aria-label": `From core to core: ${one.name}`});
    const context = canvas.getContext("2d"), caption = make("figcaption");
    const between = new Map();
    for (const [a, b, ns] of one.pairs) {
      const shade = scale[Math.min(6, Math.max(0, Math.round((Math.log(ns) - low) / span * 6)))];
      context.fillStyle = `rgb(${shade[0]} ${shade[1]} ${shade[2]})`;
      for (const [x, y] of [[a, b], [b, a]]) {
        context.fillRect(cpus.indexOf(x), cpus.indexOf(y), 1, 1);
        between.set(`${x} ${y}`, ns);
      }
    }
    const ends = one.pairs.map((pair) => pair[2]).sort((x, y) => x - y);
    const range = [...new Set([ends[0], ends.at(-1)].map(time))].join(" to ");
    const usual = `${labels(machines)[place]}: ${cpus.length} CPUs, ${range}`;
    canvas.style.maxWidth = `${cpus.length * WIDEST_CELL}px`;
    caption.textContent = usual;
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height].map((part) => cpus[Math.floor(part * cpus.length)]);
      const ns = between.get(`${x} ${y}`);
      caption.textContent = ns ? `CPU ${x} and CPU ${y}: ${time(ns)}` : usual;
    });
    maps.append(make("figure", {}, canvas, caption));
  });
  const shades = scale.map(([red, green, blue]) => {
    const one = make("i");
    one.style.background = `rgb(${red} ${green} ${blue})`;
    return one;
  });
  return make("div", {}, make("p", {class: "shades"}, time(least), make("span", {}, ...shades), time(Math.exp(low + span))), maps);
}

const LINEAR = {to: (value) => value, from: (value) => value}, LOGARITHMIC = {to: Math.log, from: Math.exp};
function bytes(value) {
  let step = 0;
  for (; value >= 1024 && step < 3; step++) value /= 1024;
  return `${digits(value)} ${["B", "KiB", "MiB", "GiB"][step]}`;
}
function rate(value) { return `${digits(value / 1e9)} GB/s`; }

// series: of a machine, names with points of x and ns. A linear axis begins at 0.
function plot(machines, label, series, scale, words) {
  const all = machines.flatMap((one) => series(one).flatMap(([, points]) => points));
  const ends = [0, 1].map((axis) => {
    const values = all.map((point) => scale.to(point[axis]));
    return [scale === LINEAR ? 0 : Math.min(...values), Math.max(...values)];
  });
  const wide = Math.min(720, at("shown").clientWidth), high = 320, left = 60, low = 34;
  const room = [[left, wide - 12], [high - low, 12]];
  const place = (axis, value) => room[axis][0] + (scale.to(value) - ends[axis][0]) / (ends[axis][1] - ends[axis][0] || 1) * (room[axis][1] - room[axis][0]);
  const svg = make("svg", {viewBox: `0 0 ${wide} ${high}`, width: wide, role: "img", "aria-label": label});
  for (const part of [0, 0.5, 1]) {
    const [across, up] = ends.map(([first, last]) => scale.from(first + part * (last - first)));
    svg.append(make("line", {class: "axis", x1: left, x2: wide - 12, y1: place(1, up), y2: place(1, up)}));
    svg.append(make("text", {x: left - 6, y: place(1, up) + 4, "text-anchor": "end"}, time(up)));
    svg.append(make("text", {x: place(0, across), y: high - 12, "text-anchor": ["start", "middle", "end"][2 * part]}, words(across)));
  }
  machines.forEach((one, number) => {
    const stroke = `var(--series-${number % SERIES + 1})`;
    for (const [name, points] of series(one)) {
      svg.append(make("path", {d: points.map((each, step) => `${step ? "L" : "M"}${place(0, each[0]).toFixed(1)} ${place(1, each[1]).toFixed(1)}`).join(""), fill: "none", stroke, "stroke-width": 2}));
      for (const each of points) svg.append(make("circle", {cx: place(0, each[0]), cy: place(1, each[1]), r: 2.5, fill: stroke}, make("title", {}, `${one.name}${name}: ${time(each[1])} at ${words(each[0])}`)));
    }
  });
  return make("div", {}, svg, ...(machines.length > 1 ? [legend(machines, (one) => series(one).length)] : []));
}

function loaded(one) {
  return [...new Set(one.loaded.map((each) => each[0]))].map((mix) => [`, ${mix}`,
    one.loaded.filter((each) => each[0] === mix).map((each) => each.slice(1)).sort((a, b) => a[0] - b[0])]);
}

function legend(machines, has) {
  return make("ul", {class: "legend"}, ...machines.flatMap((one, place) => !has(one) ? [] : make("li", {}, make("svg", {viewBox: "0 0 24 10"}, make("line", {x1: 0, x2: 24, y1: 5, y2: 5, stroke: `var(--series-${place % SERIES + 1})`, "stroke-width": 3})), ` ${labels(machines)[place]}`)));
}

async function side(ids) {
  await Promise.all(ids.map(load));
  if (location.hash.slice(1) !== ids.join(",") && !(given.loads === false && !location.hash)) return;
  const machines = ids.filter((id) => whole.has(id)).map((id) => whole.get(id)), shown = at("shown");
  const lost = ids.filter((id) => !whole.has(id));
  at("title").textContent = machines.length > 1 ? `${machines.length} machines side by side` : machines[0]?.name ?? "No such machine";
  shown.replaceChildren();
  if (lost.length) shown.append(make("p", {class: "status"}, `The gallery has no machine ${lost.join(", ")}.`));
  if (!machines.length) return;
  const part = (title, one) => shown.append(make("h2", {}, title), one);
  if (machines.length > 1) shown.append(key(machines));
  shown.append(about(machines));
  if (machines.some((one) => one.hierarchy.length)) part("Memory", hierarchy(machines));
  const walk = (one) => one.latency.length > 1 ? [["", one.latency]] : [];
  if (machines.some((one) => walk(one).length)) part("Latency of a load by size", plot(machines, "Latency of a load by size", walk, LOGARITHMIC, bytes));
  if (machines.some((one) => one.tolls.length)) part("Tolls", tolls(machines));
  if (machines.length > 1) shown.append(make("p", {class: "aside"}, "A ratio is of the toll to that of A, with its 95 % interval; bold where the interval does not contain 1. It does not correct for the number of tolls."));
  if (machines.some((one) => one.pairs.length)) part("From core to core, there and back", cores(machines));
  if (machines.some((one) => one.loaded.length > 1)) part("Latency under load", plot(machines, "Latency under load", loaded, LINEAR, rate));
}

function list() {
  const words = at("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = given.machines.filter((one) => words.every((word) => LISTED.some((key) => String(one[key]).toLowerCase().includes(word))));
  at("machines").tHead.replaceChildren(make("tr", {}, make("th", {scope: "col"}, ""), ...COLUMNS.map(([, name]) => make("th", {scope: "col"}, name))));
  at("machines").tBodies[0].replaceChildren(...found.map((one) => {
    const tick = make("input", {type: "checkbox", "aria-label": `Compare ${one.name}`});
    tick.checked = ticked.has(one.id);
    tick.addEventListener("change", () => { tick.checked ? ticked.add(one.id) : ticked.delete(one.id); link(); });
    const [first, ...others] = COLUMNS.map(([key]) => String(one[key]));
    return make("tr", {}, make("td", {}, tick), make("th", {scope: "row"}, make("a", {href: `#${one.id}`}, first)), ...others.map((text, place) => make("td", {"data-name": COLUMNS[place + 1][1]}, text)));
  }));
  at("matched").textContent = found.length === given.machines.length ? "" : `${found.length} of ${given.machines.length}`;
}

function link() {
  at("beside").hidden = ticked.size < 2;
  at("beside").href = `#${[...ticked].join(",")}`;
  at("beside").textContent = `${ticked.size} side by side`;
}

function route() {
  const ids = location.hash.slice(1).split(",").filter((id) => /^[0-9a-f]{12}$/.test(id));
  const all = !given.loads && !ids.length ? given.machines.map((one) => one.id) : ids;
  at("list").hidden = all.length > 0;
  at("shown").hidden = !all.length;
  if (all.length) side(all);
  else { at("title").textContent = `${given.machines.length} machines`; list(); }
}

at("filter").addEventListener("input", list);
addEventListener("hashchange", route);
route();
