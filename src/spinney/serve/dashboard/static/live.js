// Keeps the part of a page that changes up to date, as long as somebody can see it.
"use strict";
(() => {
  const live = document.getElementById("live");
  const light = document.getElementById("light");
  if (!live || !("live" in live.dataset)) return;
  const AGAIN_MS = 5000;
  let source = null;
  let again = 0;
  let mark = live.dataset.mark;

  function say(state, word) {
    light.dataset.state = state;
    light.querySelector(".said").textContent = word;
  }

  function open() {
    close();
    const asked = new URLSearchParams(location.search);
    asked.set("mark", mark);
    source = new EventSource("/live" + location.pathname + "?" + asked);
    source.addEventListener("open", () => say("live", "live"));
    source.addEventListener("error", () => {
      say("lost", "connection lost, trying again");
      if (source && source.readyState === EventSource.CLOSED) again = setTimeout(open, AGAIN_MS);
    });
    source.addEventListener("page", (event) => {
      mark = event.lastEventId;
      const fresh = document.createElement("div");
      fresh.innerHTML = event.data;
      morph(live, fresh);
      document.dispatchEvent(new CustomEvent("spinney:page"));
    });
    source.addEventListener("cells", (event) => {
      document.dispatchEvent(new CustomEvent("spinney:cells", { detail: JSON.parse(event.data) }));
    });
  }

  function close() {
    clearTimeout(again);
    if (source) source.close();
    source = null;
  }

  // What is the same stays the same element: focus, scroll and selection are not lost.
  function morph(old, fresh) {
    for (const name of [...old.getAttributeNames()]) {
      if (old !== live && !fresh.hasAttribute(name) && name !== "tabindex") old.removeAttribute(name);
    }
    for (const name of fresh.getAttributeNames()) {
      if (old.getAttribute(name) !== fresh.getAttribute(name) && name !== "tabindex") {
        old.setAttribute(name, fresh.getAttribute(name));
      }
    }
    const there = [...old.childNodes];
    const wanted = [...fresh.childNodes];
    wanted.forEach((node, at) => {
      const now = there[at];
      if (!now) old.appendChild(node);
      else if (!alike(now, node)) old.replaceChild(node, now);
      else if (now.nodeType === Node.ELEMENT_NODE) morph(now, node);
      else if (now.nodeValue !== node.nodeValue) now.nodeValue = node.nodeValue;
    });
    there.slice(wanted.length).forEach((node) => node.remove());
  }

  function alike(one, other) {
    return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  document.addEventListener("htmx:pushedIntoHistory", () => { mark = ""; open(); });
  document.addEventListener("htmx:afterSettle", () => document.dispatchEvent(new CustomEvent("spinney:page")));
  window.addEventListener("pagehide", close);
  if (!document.hidden) open();
})();
