"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const groups = data.groups;
  const WIDTH = 210, ROW = 15, HEAD = 22, GAP_X = 26, GAP_Y = 46, MOST_ROWS = 6;
  const canvas = document.getElementById("graph"), pen = canvas.getContext("2d");
  const details = document.getElementById("details"), hits = document.getElementById("hits");
  const closed = new Set();
  const view = { scale: 1, x: 0, y: 0 };
  let graph = { nodes: [], edges: [], of: [] }, selected = null, matches = null, current = -1, frame = 0;

  // ---- words

  const unit = (value, table, none) => {
    if (value === null || value === undefined) return none;
    const [scale, name] = table.find(([least]) => value >= least) || table[table.length - 1];
    const number = value / scale;
    return `${number >= 100 ? Math.round(number) : Number(number.toPrecision(3))} ${name}`;
  };
  const seconds = (value) => unit(value, [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]], "not known");
  const amount = (value, name) => unit(value, [[1e12, `T${name}`], [1e9, `G${name}`], [1e6, `M${name}`], [1e3, `k${name}`], [1, name]], "not known");
  const tensor = (t) => `${t.dtype}[${t.shape.join(", ")}]`;

  // ---- modules

  const moduleOf = (group) => { const o = group.operators.find((operator) => operator.module); return o ? o.module : ""; };
  const prefixes = (path) => path ? path.split(".").map((_, i, parts) => parts.slice(0, i + 1).join(".")) : [];
  const counts = new Map();
  for (const group of groups) {
    group.module = moduleOf(group);
    group.text = [group.pattern, group.name, group.backend, ...group.operators.flatMap((o) => [o.op, o.variable, o.module, o.source, o.part_of])].join("\n").toLowerCase();
    for (const path of prefixes(group.module)) counts.set(path, (counts.get(path) || 0) + 1);
  }
  const closedPrefix = (group) => prefixes(group.module).find((path) => closed.has(path)) || null;

  function listModules() {
    const roots = document.getElementById("modules");
    roots.textContent = "";
    const lists = new Map([["", roots]]);
    for (const path of counts.keys()) {
      const parent = path.includes(".") ? path.slice(0, path.lastIndexOf(".")) : "";
      if (closed.has(parent) || !lists.has(parent)) continue;
      const item = document.createElement("li"), button = document.createElement("button"), inner = document.createElement("ul");
      button.type = "button";
      button.className = closed.has(path) ? "module closed" : "module";
      button.textContent = `${closed.has(path) ? "+" : "-"} ${path.slice(parent ? parent.length + 1 : 0)} (${counts.get(path)})`;
      button.dataset.module = path;
      button.addEventListener("click", () => toggle(path));
      item.append(button, inner);
      lists.get(parent).append(item);
      if (!closed.has(path)) lists.set(path, inner);
    }
  }

  function toggle(path) {
    if (!closed.delete(path)) closed.add(path);
    rebuild();
  }

  // ---- layout: layers by the longest way from an input, then by what is read, from the top down and back

  function rebuild() {
    const byKey = new Map(), of = [];
    for (const group of groups) {
      const prefix = closedPrefix(group), key = prefix === null ? group.number : `m ${prefix}`;
      if (!byKey.has(key)) byKey.set(key, { key, prefix, groups: [], before: new Set(), after: new Set(), layer: 0, x: 0, y: 0, w: WIDTH, h: 0 });
      byKey.get(key).groups.push(group);
      of[group.number] = byKey.get(key);
    }
    const nodes = [...byKey.values()], edges = [];
    nodes.forEach((node, i) => { node.order = i; });
    for (const node of nodes) for (const group of node.groups) for (const source of group.reads) {
      const from = of[source];
      if (from !== node && !node.before.has(from)) {
        node.before.add(from); from.after.add(node);
        edges.push({ from, to: node, back: from.order > node.order });
      }
    }
    for (const node of nodes) {
      const rows = node.prefix === null ? Math.min(node.groups[0].operators.length, MOST_ROWS) : 1;
      node.h = HEAD + rows * ROW + 6;
      for (const from of node.before) if (from.order < node.order) node.layer = Math.max(node.layer, from.layer + 1);
    }
    place(nodes);
    graph = { nodes, edges, of };
    listModules();
    draw();
  }

  function place(nodes) {
    const layers = [];
    for (const node of nodes) (layers[node.layer] = layers[node.layer] || []).push(node);
    let y = 0;
    for (const layer of layers) {
      let x = 0;
      for (const node of layer) { node.x = x; node.y = y; x += WIDTH + GAP_X; }
      y += Math.max(...layer.map((node) => node.h)) + GAP_Y;
    }
    for (let sweep = 0; sweep < 4; sweep += 1) {
      const down = sweep % 2 === 0, ordered = down ? layers : [...layers].reverse();
      for (const layer of ordered) align(layer, (node) => down ? node.before : node.after);
    }
  }

  function align(layer, near) {
    for (const node of layer) {
      const others = [...near(node)];
      node.wish = others.length ? others.reduce((sum, other) => sum + other.x, 0) / others.length : node.x;
    }
    layer.sort((a, b) => a.wish - b.wish || a.order - b.order);
    let edge = -Infinity, shift = 0;
    for (const node of layer) {
      node.x = Math.max(node.wish, edge);
      edge = node.x + WIDTH + GAP_X;
      shift += node.x - node.wish;
    }
    for (const node of layer) node.x -= shift / layer.length;
  }

  // ---- drawing

  const hue = (number) => (number * 137.508) % 360;
  const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  const slowest = Math.max(1e-12, ...groups.map((group) => group.seconds || 0));
  const backends = [...new Set(groups.map((group) => group.backend || group.kind))];

  function tint(node) {
    const light = dark() ? 30 : 84, group = node.groups[0], mode = document.getElementById("colour").value;
    if (mode === "group") return `hsl(${hue(group.number)} 45% ${light}%)`;
    if (mode === "backend") return `hsl(${hue(backends.indexOf(group.backend || group.kind) + 3)} 55% ${light}%)`;
    const known = node.groups.filter((g) => (mode === "time" ? g.seconds : g.roofline) !== null);
    if (!known.length) return dark() ? "#3a3e42" : "#e4e4e0";
    if (mode === "time") {
      const spent = known.reduce((sum, g) => sum + g.seconds, 0);
      return `hsl(${50 - 50 * Math.min(1, spent / slowest)} 80% ${dark() ? 22 + 18 * Math.min(1, spent / slowest) : 92 - 30 * Math.min(1, spent / slowest)}%)`;
    }
    return `hsl(${120 * Math.min(1, Math.max(...known.map((g) => g.roofline)))} 50% ${light}%)`;
  }

  function size() {
    const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
    if (canvas.width !== Math.round(box.width * ratio) || canvas.height !== Math.round(box.height * ratio)) {
      canvas.width = Math.round(box.width * ratio);
      canvas.height = Math.round(box.height * ratio);
    }
    return { ratio, width: box.width, height: box.height };
  }

  function draw() {
    if (!frame) frame = requestAnimationFrame(paint);
  }

  function paint() {
    frame = 0;
    const { ratio, width, height } = size(), style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink"), line = style.getPropertyValue("--faint"), mark = style.getPropertyValue("--mark");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
    const left = -view.x / view.scale, top = -view.y / view.scale;
    const right = left + width / view.scale, bottom = top + height / view.scale;
    pen.lineWidth = Math.max(1, 0.6 / view.scale);
    for (const edge of graph.edges) {
      const y1 = edge.from.y + edge.from.h, y2 = edge.to.y;
      if (Math.max(y1, y2) < top || Math.min(y1, y2) > bottom) continue;
      arrow(edge, edge.from === selected || edge.to === selected ? mark : line);
    }
    for (const node of graph.nodes) {
      if (node.x > right || node.x + node.w < left || node.y > bottom || node.y + node.h < top) continue;
      box(node, ink, line, mark);
    }
  }

  function arrow({ from, to, back }, colour) {
    const x1 = from.x + WIDTH / 2, y1 = from.y + from.h, x2 = to.x + WIDTH / 2, y2 = to.y;
    const far = to.layer - from.layer, aside = far > 1 || back ? (WIDTH / 2 + GAP_X) * (1 + Math.min(far, 6) / 6) : 0;
    const bend = Math.min(60, Math.abs(y2 - y1) / 2);
    pen.strokeStyle = colour;
    pen.globalAlpha = 0.75;
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.bezierCurveTo(x1 + aside, y1 + bend, x2 + aside, y2 - bend, x2, y2);
    pen.moveTo(x2 - 4, y2 - 6);
    pen.lineTo(x2, y2);
    pen.lineTo(x2 + 4, y2 - 6);
    pen.stroke();
    pen.globalAlpha = 1;
  }

  function box(node, ink, line, mark) {
    const group = node.groups[0], hit = matches === null || node.groups.some((g) => matches.has(g.number));
    pen.globalAlpha = hit ? 1 : 0.2;
    pen.fillStyle = tint(node);
    pen.strokeStyle = node === selected || (matches !== null && hit) ? mark : line;
    const wide = pen.lineWidth;
    if (node === selected) pen.lineWidth = wide * 3;
    pen.beginPath();
    pen.roundRect(node.x, node.y, node.w, node.h, 6);
    pen.fill();
    pen.stroke();
    pen.lineWidth = wide;
    if (view.scale > 0.3) words(node, group, ink);
    pen.globalAlpha = 1;
  }

  function words(node, group, ink) {
    pen.save();
    pen.beginPath();
    pen.rect(node.x, node.y, node.w - 4, node.h);
    pen.clip();
    pen.fillStyle = ink;
    pen.font = "600 11px system-ui, sans-serif";
    const time = node.prefix === null && group.seconds !== null ? seconds(group.seconds) : "";
    pen.textAlign = "right";
    pen.fillText(time, node.x + node.w - 8, node.y + 15);
    pen.textAlign = "left";
    pen.fillText(shortened(title(node), node.w - 24 - pen.measureText(time).width), node.x + 8, node.y + 15);
    pen.font = "11px system-ui, sans-serif";
    const rows = node.prefix === null ? group.operators.map((o) => o.op.replace(/^relax\.(nn\.)?/, "") + "  " + (o.module || o.variable)) : [`${node.groups.length} groups`];
    rows.slice(0, MOST_ROWS).forEach((row, i) => {
      const last = i === MOST_ROWS - 1 && rows.length > MOST_ROWS;
      pen.fillText(last ? `and ${rows.length - i} more` : row, node.x + 14, node.y + HEAD + 11 + i * ROW);
    });
    pen.restore();
  }

  const title = (node) => {
    if (node.prefix !== null) return `+ ${node.prefix}`;
    return `${node.groups[0].number}  ${node.groups[0].pattern}`;
  };

  function shortened(text, width) {
    let end = Math.min(text.length, 80);
    while (end > 4 && pen.measureText(text.slice(0, end)).width > width) end -= 1;
    return end < text.length ? `${text.slice(0, end - 2)}...` : text;
  }

  // ---- details

  const element = (name, text, className) => {
    const out = document.createElement(name);
    if (text !== undefined) out.textContent = text;
    if (className) out.className = className;
    return out;
  };

  function table(rows) {
    const out = element("table");
    for (const [name, value] of rows) {
      if (value === null || value === undefined || value === "") continue;
      const row = element("tr");
      row.append(element("td", name), element("td", value));
      out.append(row);
    }
    return out;
  }

  function listed(heading, items) {
    if (!items.length) return [];
    const list = element("ul");
    for (const item of items) { const row = element("li"); row.append(...item); list.append(row); }
    return [element("h2", heading), list];
  }

  function link(number) {
    const button = element("button", `group ${number}`, "go");
    button.type = "button";
    button.addEventListener("click", () => { select(number); center(number); });
    return button;
  }

  const reason = (step, other) => [link(other), " ", element("span", step.rule, "rule"), " ", step.reason];

  function showGroup(group) {
    const share = group.roofline === null ? null : `${Math.round(group.roofline * 100)} %`;
    const together = data.timings.find((timing) => timing.groups.length > 1 && timing.groups.includes(group.number));
    details.textContent = "";
    details.append(
      element("h2", `Group ${group.number}: ${group.pattern}`),
      table([
        ["kind", `${group.kind}${group.backend ? ` (${group.backend})` : ""}`], ["name", group.name], ["note", group.note],
        ["time", group.seconds === null ? null : seconds(group.seconds)],
        ["together", together ? `${seconds(together.seconds)} for groups ${together.groups[0]} to ${together.groups[together.groups.length - 1]}` : null],
        ["roofline", share], ["implementation", group.how],
        ["moves", amount(group.bytes_fused, "B")], ["unfused", amount(group.bytes_unfused, "B")],
        ["constants", amount(group.constant_bytes, "B")], ["operations", group.flops === null ? null : amount(group.flops, "FLOP")],
        ["reads", group.inputs.filter((t) => !t.constant).map(tensor).join("; ")], ["writes", group.results.map(tensor).join("; ")],
      ]),
      ...listed("Operators", group.operators.map((o) => [
        element("b", o.op), ` ${o.variable}${o.part_of ? ` of ${o.part_of}` : ""}`, element("div", [o.module, o.source].filter(Boolean).join("  "), "faint"),
        element("div", o.results.map(tensor).join("; "), "faint"),
      ])),
      ...listed("Not with what it reads", data.boundaries.filter((b) => b.reader === group.number).map((b) => reason(b, b.source))),
      ...listed("Not with what reads it", data.boundaries.filter((b) => b.source === group.number).map((b) => reason(b, b.reader))),
      ...listed("Patterns that nearly matched", data.misses.filter((m) => m.group === group.number).map((m) => [element("b", m.pattern), ` at ${m.variable}: ${m.reason}`])),
    );
    if (group.trace.length) details.append(element("h2", "Schedule"), element("pre", group.trace.join("\n")));
  }

  function showModule(node) {
    details.textContent = "";
    const known = node.groups.filter((group) => group.seconds !== null);
    details.append(
      element("h2", `Module ${node.prefix}`),
      table([["groups", String(node.groups.length)], ["time", known.length ? seconds(known.reduce((sum, g) => sum + g.seconds, 0)) : null]]),
      ...listed("Groups", node.groups.map((group) => [`${group.number} ${group.pattern}`])),
    );
  }

  function selectNode(node) {
    selected = node;
    if (node === null) details.textContent = "";
    else if (node.prefix !== null) showModule(node);
    else showGroup(node.groups[0]);
    draw();
  }

  function select(number) {
    for (const path of prefixes(groups[number].module)) closed.delete(path);
    if (graph.of[number].prefix !== null) rebuild();
    selectNode(graph.of[number]);
  }

  // ---- moving about

  function fit(least) {
    const { width, height } = size(), nodes = graph.nodes;
    if (!nodes.length || !width || !height) return;
    const left = Math.min(...nodes.map((n) => n.x)), right = Math.max(...nodes.map((n) => n.x + n.w));
    const bottom = Math.max(...nodes.map((n) => n.y + n.h));
    const whole = Math.min(width / (right - left + 60), height / (bottom + 40));
    view.scale = Math.min(1, Math.max(whole, least));
    view.x = width / 2 - view.scale * (left + right) / 2;
    view.y = 20;
    draw();
  }

  function center(number) {
    const { width, height } = size(), node = graph.of[number];
    view.scale = Math.max(view.scale, 0.7);
    view.x = width / 2 - view.scale * (node.x + node.w / 2);
    view.y = height / 2 - view.scale * (node.y + node.h / 2);
    draw();
  }

  function zoom(factor, x, y) {
    const scale = Math.min(4, Math.max(0.01, view.scale * factor));
    view.x = x - (x - view.x) * scale / view.scale;
    view.y = y - (y - view.y) * scale / view.scale;
    view.scale = scale;
    draw();
  }

  function nodeAt(event) {
    const frameBox = canvas.getBoundingClientRect();
    const x = (event.clientX - frameBox.left - view.x) / view.scale, y = (event.clientY - frameBox.top - view.y) / view.scale;
    return graph.nodes.find((n) => x >= n.x && x <= n.x + n.w && y >= n.y && y <= n.y + n.h) || null;
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag === null) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    Object.assign(drag, { x: event.clientX, y: event.clientY, moved: true });
    view.x += dx; view.y += dy;
    draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag !== null && !drag.moved) selectNode(nodeAt(event));
    drag = null;
  });
  canvas.addEventListener("dblclick", (event) => {
    const node = nodeAt(event);
    if (node !== null && node.prefix !== null) toggle(node.prefix);
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (moves) { view.x += moves[0]; view.y += moves[1]; draw(); }
    if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.25 : 0.8, canvas.clientWidth / 2, canvas.clientHeight / 2);
  });
  new ResizeObserver(draw).observe(canvas);

  // ---- search

  function search() {
    const words = document.getElementById("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    matches = words.length ? new Set(groups.filter((g) => words.every((word) => g.text.includes(word))).map((g) => g.number)) : null;
    current = -1;
    hits.textContent = matches === null ? "" : `${matches.size} of ${groups.length} groups`;
    draw();
  }

  function nextHit() {
    if (matches === null || !matches.size) return;
    current = (current + 1) % matches.size;
    const number = [...matches][current];
    select(number);
    center(number);
  }

  document.getElementById("search").addEventListener("input", search);
  document.getElementById("search").addEventListener("keydown", (event) => { if (event.key === "Enter") nextHit(); });
  document.getElementById("colour").addEventListener("change", draw);
  document.getElementById("fit").addEventListener("click", () => fit(0.01));
  document.getElementById("collapse-all").addEventListener("click", () => {
    for (const path of counts.keys()) if (!path.includes(".")) closed.add(path);
    rebuild(); fit(0.6);
  });
  document.getElementById("expand-all").addEventListener("click", () => { closed.clear(); rebuild(); fit(0.6); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  document.getElementById("summary").textContent = data.summary;
  rebuild();
  fit(0.6);
  // What tests and bookmarklets may ask.
  window.explanation = {
    data, select, center, toggle, fit, paint,
    nodes: () => graph.nodes.map((n) => ({ key: n.key, prefix: n.prefix, groups: n.groups.map((g) => g.number), layer: n.layer, x: n.x, y: n.y, w: n.w, h: n.h })),
    onScreen: (number) => {
      const box = canvas.getBoundingClientRect(), n = graph.of[number];
      return { x: box.left + view.x + view.scale * (n.x + n.w / 2), y: box.top + view.y + view.scale * (n.y + n.h / 2) };
    },
  };
})();
