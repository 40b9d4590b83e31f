// Drawings of a topology: keys to walk through them, cells as they fill, and a canvas where there are too many of them.
"use strict";
(() => {
  const WIDE = 32;

  // Boxes and cells that the server drew

  function fill(element, used, gang, wide) {
    const total = Number(element.dataset.total) || 1;
    const rects = element.querySelectorAll(":scope > rect, :scope > .head rect, :scope > .fills rect");
    for (const rect of rects) {
      const share = rect.classList.contains("used") ? used : rect.classList.contains("gang") ? gang : null;
      if (share !== null) rect.setAttribute("width", ((wide * Math.min(share, total)) / total).toFixed(2));
    }
  }

  function words(name, used, total, unit, gang, state, pods) {
    const there = pods ? `, ${pods} pod${pods === 1 ? "" : "s"} of the chosen gang` : "";
    const chosen = gang ? `, ${gang} by the chosen gang` : there;
    return `${name}: ${used} of ${total} ${unit} used${chosen}${state ? `, ${state}` : ""}`;
  }

  function tell(cells) {
    for (const [id, news] of Object.entries(cells)) {
      const element = document.getElementById(id);
      if (!element) continue;
      if (element.classList.contains("cell")) {
        const [used, gang, state, pods] = news;
        fill(element, used, gang, WIDE);
        element.classList.toggle("off", state !== "");
        element.classList.toggle("here", pods > 0 && !gang);
        const unit = element.closest("[data-unit]").dataset.unit;
        element.setAttribute("aria-label", words(element.dataset.name, used, element.dataset.total, unit, gang, state, pods));
      } else {
        fill(element, news[0], news[1], 100);
        const sum = element.querySelector(":scope > .head .u, :scope .u");
        if (sum) sum.textContent = news[0];
        const label = element.getAttribute("aria-label");
        if (label) element.setAttribute("aria-label", label.replace(/, \d+ of (?=\d+ \S+ used$)/, `, ${news[0]} of `));
      }
    }
  }

  function items(tree) {
    return [...tree.querySelectorAll("[role=treeitem]")].filter((one) => !one.parentElement.closest("[aria-expanded=false]"));
  }

  function walk(event) {
    const item = event.target.closest("[role=treeitem]");
    const tree = item && item.closest("[role=tree]");
    if (!tree || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = items(tree);
    const at = all.indexOf(item);
    const parent = item.parentElement.closest("[role=treeitem]");
    const closed = item.getAttribute("aria-expanded") === "false";
    let next = null;
    if (event.key === "ArrowDown") next = all[at + 1];
    else if (event.key === "ArrowUp") next = all[at - 1];
    else if (event.key === "Home") next = all[0];
    else if (event.key === "End") next = all[all.length - 1];
    else if (event.key === "ArrowRight") {
      if (closed) item.setAttribute("aria-expanded", "true");
      else next = all[at + 1];
    } else if (event.key === "ArrowLeft") {
      if (item.getAttribute("aria-expanded") === "true") item.setAttribute("aria-expanded", "false");
      else next = parent;
    } else if ((event.key === "Enter" || event.key === " ") && item.hasAttribute("aria-expanded")) {
      item.setAttribute("aria-expanded", String(closed));
    } else return;
    event.preventDefault();
    if (next) step(tree, next);
  }

  function step(tree, item) {
    tree.querySelectorAll("[tabindex='0']").forEach((one) => one.setAttribute("tabindex", "-1"));
    item.setAttribute("tabindex", "0");
    item.focus();
  }

  function enter() {
    document.querySelectorAll("[role=tree]").forEach((tree) => {
      if (!tree.querySelector("[role=treeitem][tabindex='0']")) {
        const first = tree.querySelector("[role=treeitem]");
        if (first) first.setAttribute("tabindex", "0");
      }
    });
  }

  // A canvas

  let sheet = null;

  async function draw() {
    const canvas = document.getElementById("canvas");
    if (!canvas) { sheet = null; return; }
    const asked = new URLSearchParams({ topology: canvas.dataset.topology, gang: canvas.dataset.gang });
    const answer = await fetch("/cells/tree?" + asked, { headers: { accept: "application/json" } });
    if (!answer.ok || !canvas.isConnected) return;
    sheet = new Sheet(canvas, await answer.json());
    sheet.paint();
    canvas.dataset.drawn = String(sheet.cells.length);
  }

  class Sheet {
    constructor(canvas, found) {
      this.canvas = canvas;
      this.unit = found.unit;
      this.boxes = found.boxes.map(([id, parent, level, name, nodes, total, used, gang, unit]) =>
        ({ id, parent, level, name, nodes, total, used, gang, unit, kids: [], cells: [] }));
      this.cells = found.cells.map(([id, box, name, total, used, gang, state, pods, unit]) =>
        ({ id, box, name, total, used, gang, state, pods, unit }));
      this.boxes.forEach((box) => { if (box.parent >= 0) this.boxes[box.parent].kids.push(box); });
      this.cells.forEach((cell) => this.boxes[cell.box].cells.push(cell));
      this.roots = this.boxes.filter((box) => box.parent < 0);
      this.known = new Map([...this.boxes, ...this.cells].map((one) => [one.id, one]));
      this.at = -1;
      canvas.onkeydown = (event) => this.key(event);
      canvas.onmousemove = (event) => this.point(event);
      canvas.onclick = () => this.visit();
    }

    paint() {
      const wide = this.canvas.clientWidth || 800;
      const rooted = this.roots.some((box) => box.kids.length);
      const side = wide < 600 ? 4 : 6;
      let y = 8;
      const place = (box, left, top, most) => {
        box.x = left;
        box.y = top;
        const inner = left + 6;
        let x = inner;
        let down = top + 18;
        if (box.cells.length) {
          const step = side + 1.5;
          const columns = Math.max(1, Math.min(Math.ceil(Math.sqrt(box.cells.length * 1.6)), Math.floor((most - 12) / step)));
          box.cells.forEach((cell, at) => {
            cell.x = inner + (at % columns) * step;
            cell.y = down + Math.floor(at / columns) * step;
          });
          box.w = Math.max(columns * step + 12, Math.min(most, 42));
          box.h = 18 + Math.ceil(box.cells.length / columns) * step + 5;
          return;
        }
        let row = 0;
        let far = inner;
        for (const kid of box.kids) {
          place(kid, x, down, most - 12);
          if (x > inner && kid.x + kid.w > left + most - 6) {
            down += row + 5;
            x = inner;
            row = 0;
            place(kid, x, down, most - 12);
          }
          x = kid.x + kid.w + 5;
          far = Math.max(far, x);
          row = Math.max(row, kid.h);
        }
        box.w = Math.min(most, far - left + 1);
        box.h = down + row + 6 - top;
      };
      let x = 8;
      let row = 0;
      for (const box of this.roots) {
        place(box, x, y, wide - 16);
        if (!rooted && x > 8 && box.x + box.w > wide - 8) {
          y += row + 6;
          x = 8;
          row = 0;
          place(box, x, y, wide - 16);
        }
        if (rooted && box.kids.length) { box.w = wide - 16; y += box.h + 8; row = 0; } else { x = box.x + box.w + 6; row = Math.max(row, box.h); }
      }
      this.side = side;
      const high = Math.ceil(y + row + 8);
      const dense = window.devicePixelRatio || 1;
      this.canvas.width = Math.round(wide * dense);
      this.canvas.height = Math.round(high * dense);
      this.canvas.setAttribute("height", String(Math.round(high * dense)));
      this.pen = this.canvas.getContext("2d");
      this.pen.scale(dense, dense);
      const style = getComputedStyle(document.documentElement);
      this.ink = Object.fromEntries(["free", "used", "gang", "line", "ink", "quiet", "paper", "focus"].map((name) =>
        [name, style.getPropertyValue("--" + name).trim()]));
      this.boxes.forEach((box) => this.frame(box));
      this.cells.forEach((cell) => this.cell(cell));
    }

    frame(box) {
      const pen = this.pen;
      pen.fillStyle = this.ink.paper;
      pen.strokeStyle = this.ink.line;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.roundRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1, 4);
      pen.stroke();
      this.head(box);
    }

    head(box) {
      const pen = this.pen;
      pen.save();
      pen.beginPath();
      pen.rect(box.x + 1, box.y + 2, box.w - 2, 14);
      pen.clip();
      pen.fillStyle = this.ink.paper;
      pen.fillRect(box.x + 1, box.y + 2, box.w - 2, 14);
      pen.font = "600 10px system-ui, sans-serif";
      pen.fillStyle = this.ink.ink;
      pen.fillText(box.name, box.x + 5, box.y + 12);
      const sum = `${box.used}/${box.total} ${box.unit}`.trim();
      const room = box.w - 12 - pen.measureText(box.name).width;
      pen.font = "10px system-ui, sans-serif";
      if (pen.measureText(sum).width < room) {
        pen.fillStyle = this.ink.quiet;
        pen.textAlign = "right";
        pen.fillText(sum, box.x + box.w - 5, box.y + 12);
      }
      pen.restore();
    }

    cell(cell) {
      const pen = this.pen;
      const side = this.side;
      pen.fillStyle = this.ink.paper;
      pen.fillRect(cell.x - 0.75, cell.y - 0.75, side + 1.5, side + 1.5);
      pen.fillStyle = this.ink.free;
      pen.fillRect(cell.x, cell.y, side, side);
      const total = cell.total || 1;
      for (const [share, ink] of [[cell.used, "used"], [cell.gang, "gang"]]) {
        const high = (side * Math.min(share, total)) / total;
        pen.fillStyle = this.ink[ink];
        if (high) pen.fillRect(cell.x, cell.y + side - high, side, high);
      }
      if (cell.pods && !cell.gang) {
        pen.strokeStyle = this.ink.gang;
        pen.strokeRect(cell.x + 0.5, cell.y + 0.5, side - 1, side - 1);
      }
      if (cell.state) {
        pen.strokeStyle = this.ink.quiet;
        pen.strokeRect(cell.x + 0.5, cell.y + 0.5, side - 1, side - 1);
      }
      if (this.at >= 0 && this.cells[this.at] === cell) {
        pen.strokeStyle = this.ink.focus;
        pen.lineWidth = 2;
        pen.strokeRect(cell.x + 1, cell.y + 1, side - 2, side - 2);
        pen.lineWidth = 1;
      }
    }

    tell(cells) {
      for (const [id, news] of Object.entries(cells)) {
        const one = this.known.get(id);
        if (!one) continue;
        const isCell = news.length > 2;
        const same = one.used === news[0] && one.gang === news[1];
        if (same && (!isCell || (one.state === news[2] && one.pods === news[3]))) continue;
        [one.used, one.gang] = news;
        if (isCell) { [one.state, one.pods] = news.slice(2); this.cell(one); } else this.head(one);
      }
    }

    choose(at) {
      const before = this.cells[this.at];
      this.at = Math.max(0, Math.min(at, this.cells.length - 1));
      if (before) this.cell(before);
      const cell = this.cells[this.at];
      if (!cell) return;
      this.cell(cell);
      const where = [];
      for (let box = this.boxes[cell.box]; box; box = this.boxes[box.parent]) where.unshift(`${box.level} ${box.name}`.trim());
      const said = words(cell.name, cell.used, cell.total, cell.unit || this.unit, cell.gang, cell.state, cell.pods);
      document.getElementById("at").textContent = `${said} (${where.join(", ")})`;
    }

    key(event) {
      const moves = { ArrowRight: 1, ArrowLeft: -1 };
      if (event.key in moves) this.choose(this.at + moves[event.key]);
      else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.below(event.key === "ArrowDown" ? 1 : -1);
      else if (event.key === "PageDown" || event.key === "PageUp") this.jump(event.key === "PageDown" ? 1 : -1);
      else if (event.key === "Home") this.choose(0);
      else if (event.key === "End") this.choose(this.cells.length - 1);
      else if (event.key === "Enter") this.visit();
      else return;
      event.preventDefault();
    }

    below(way) {
      const here = this.cells[this.at];
      if (!here) { this.choose(0); return; }
      let best = -1;
      let least = Infinity;
      this.cells.forEach((cell, at) => {
        const down = (cell.y - here.y) * way;
        const off = down * 3 + Math.abs(cell.x - here.x);
        if (down > 1 && off < least) { least = off; best = at; }
      });
      if (best >= 0) this.choose(best);
    }

    jump(way) {
      const root = (at) => { let box = this.boxes[this.cells[at].box]; while (box.parent >= 0) box = this.boxes[box.parent]; return box; };
      let at = Math.max(0, this.at);
      const here = root(at);
      while (this.cells[at + way] && root(at) === here) at += way;
      while (way < 0 && this.cells[at - 1] && root(at - 1) === root(at)) at -= 1;
      this.choose(at);
    }

    point(event) {
      const found = this.cells.findIndex((cell) => event.offsetX >= cell.x && event.offsetX <= cell.x + this.side + 1 &&
        event.offsetY >= cell.y && event.offsetY <= cell.y + this.side + 1);
      if (found >= 0 && found !== this.at) this.choose(found);
    }

    visit() {
      const cell = this.cells[this.at];
      if (cell) location.assign("/nodes/" + encodeURIComponent(cell.name));
    }
  }

  document.addEventListener("keydown", walk);
  document.addEventListener("spinney:cells", (event) => { tell(event.detail); if (sheet) sheet.tell(event.detail); });
  document.addEventListener("spinney:page", () => { enter(); draw(); });
  window.addEventListener("resize", () => { if (sheet) sheet.paint(); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (sheet) sheet.paint(); });
  enter();
  draw();
})();
