// Drawings of a topology: keys to walk through them, cells as they fill, and details of what is pointed at.
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

  function tell(cells) {
    for (const [id, news] of Object.entries(cells)) {
      if (id === "legend") { legend(news); continue; }
      const element = document.getElementById(id);
      if (!element) continue;
      if (element.classList.contains("cell")) {
        const [used, gang, state, pods, shares, words] = news;
        fill(element, used, gang, WIDE);
        share(element, shares);
        element.classList.toggle("off", state !== "");
        element.classList.toggle("here", pods > 0 && !gang);
        element.setAttribute("aria-label", words);
      } else {
        fill(element, news[0], news[1], 100);
        const sum = element.querySelector(":scope > .head .u, :scope .u");
        if (sum) sum.textContent = news[0];
        const label = element.getAttribute("aria-label");
        if (label) element.setAttribute("aria-label", label.replace(/, \d+ of (?=\d+ \S+ used$)/, `, ${news[0]} of `));
      }
    }
  }

  function rect(fill, sizes) {
    const found = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    found.setAttribute("fill", fill);
    for (const [name, value] of Object.entries(sizes)) found.setAttribute(name, value.toFixed(2));
    return found;
  }

  function share(cell, shares) {
    const total = Number(cell.dataset.total) || 1;
    cell.querySelectorAll(".g").forEach((one) => one.remove());
    const before = cell.querySelector("use, .cross");
    for (const [gang, fill, start, amount] of shares) {
      const one = rect(fill, { x: (WIDE * start) / total, width: (WIDE * amount) / total, height: 14 });
      one.setAttribute("class", "g");
      one.dataset.gang = gang;
      cell.insertBefore(one, before);
    }
  }

  function legend(gangs) {
    const list = document.querySelector("ul.gangs");
    if (!list) return;
    list.replaceChildren(...gangs.map(([gang, fill]) => {
      const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      for (const [name, value] of [["viewBox", "0 0 16 12"], ["width", "16"], ["height", "12"], ["aria-hidden", "true"]]) {
        swatch.setAttribute(name, value);
      }
      swatch.append(rect(fill, { width: 16, height: 12 }));
      const link = document.createElement("a");
      link.dataset.gang = gang;
      link.textContent = gang;
      const [namespace, ...name] = gang.split("/");
      link.href = `/gangs/${encodeURIComponent(namespace)}/${encodeURIComponent(name.join("/"))}`;
      const item = document.createElement("li");
      item.append(swatch, link);
      return item;
    }));
  }

  // What the pointer or the focus is on: its words under the drawing, and its gang apart from the others

  function show(event) {
    const item = event.target.closest("[role=treeitem]");
    const tree = item && item.closest("[role=tree]");
    if (tree) {
      const around = [];
      for (let box = item.parentElement.closest(".box"); box; box = box.parentElement.closest(".box")) {
        around.unshift(box.querySelector(".head .level").textContent + " " + box.querySelector(".head .name").textContent);
      }
      const where = around.length ? ` (${around.join(", ").trim()})` : "";
      tree.nextElementSibling.textContent = item.getAttribute("aria-label") + where;
    }
    const gang = event.target.dataset && event.target.dataset.gang;
    document.querySelectorAll(".g.faded").forEach((one) => one.classList.remove("faded"));
    if (!gang) return;
    document.querySelectorAll(".g").forEach((one) => one.classList.toggle("faded", one.dataset.gang !== gang));
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
    } else if (event.key === "Enter" && item.querySelector(":scope > .head > a:not([tabindex])")) {
      item.querySelector(":scope > .head > a").click();
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

  document.addEventListener("keydown", walk);
  document.addEventListener("mouseover", show);
  document.addEventListener("focusin", show);
  document.addEventListener("spinney:cells", (event) => tell(event.detail));
  document.addEventListener("spinney:page", enter);
  enter();
})();
