(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const main = document.querySelector("main");
  const all = [...main.querySelectorAll("article")];
  let order = all.slice();
  const tools = $("tools");
  if (!tools) return;
  const lines = new Map([...document.querySelectorAll("tr[data-for]")].map((r) => [r.dataset.for, r]));
  const body = lines.size ? [...lines.values()][0].parentNode : null;
  tools.hidden = false;
  tools.addEventListener("submit", (e) => e.preventDefault());

  const sift = () => {
    const words = $("find").value.trim().toLowerCase();
    const task = $("task").value;
    const wanted = new Set([...$("answers").querySelectorAll("input:checked")].map((b) => b.value));
    let n = 0;
    for (const a of all) {
      const line = lines.get(a.id);
      const pairs = a.dataset.answers.trim().split(" ").map((p) => [p.slice(0, p.lastIndexOf(":")), p.slice(p.lastIndexOf(":") + 1)]);
      const fits = pairs.some(([t, w]) => (!task || t === task) && wanted.has(w));
      const found = !words || (line ? line.textContent : a.textContent).toLowerCase().includes(words);
      a.hidden = !(fits && found);
      if (line) line.hidden = a.hidden;
      n += !a.hidden;
    }
    $("shown").textContent = `${n} of ${all.length} shown`;
  };
  const sort = () => {
    const by = $("order").value;
    const text = (a) => lines.get(a.id).children[2].textContent;
    const compare = {
      n: (a, b) => a.dataset.n - b.dataset.n,
      snr: (a, b) => (b.dataset.snr || -1) - (a.dataset.snr || -1) || a.dataset.n - b.dataset.n,
      file: (a, b) => text(a).localeCompare(text(b), "en", { numeric: true }) || a.dataset.n - b.dataset.n,
    }[by];
    order = all.slice().sort(compare);
    main.append(...order);
    if (body) body.append(...order.map((a) => lines.get(a.id)));
  };
  $("find").addEventListener("input", sift);
  $("task").addEventListener("change", sift);
  $("answers").addEventListener("change", sift);
  $("order").addEventListener("change", sort);
  let open = false;
  $("unfold").addEventListener("click", () => {
    open = !open;
    for (const d of main.querySelectorAll("article:not([hidden]) details")) d.open = open;
    $("unfold").textContent = open ? "fold all" : "unfold all";
  });
  const jump = (id) => {
    const target = id && $(id);
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", () => jump(location.hash.slice(1)));
  main.addEventListener("click", (e) => {
    const link = e.target.closest("a.chip");
    if (link) jump(link.getAttribute("href").slice(1));
  });
  jump(location.hash.slice(1));

  let here = null;
  const step = (by) => {
    const seen = order.filter((a) => !a.hidden);
    const at = seen.indexOf(here);
    const next = at < 0 ? 0 : Math.min(Math.max(at + by, 0), seen.length - 1);
    here = seen[next];
    if (!here) return;
    here.scrollIntoView();
    here.focus({ preventScroll: true });
  };
  main.addEventListener("focusin", (e) => { here = e.target.closest("article") || here; });
  main.addEventListener("pointerdown", (e) => { here = e.target.closest("article") || here; });
  addEventListener("keydown", (e) => {
    if (e.isComposing || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.target.closest("input, select, textarea, [contenteditable]")) {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    if (e.key === "j") step(1);
    else if (e.key === "k") step(-1);
    else if (e.key === "i") $("index").scrollIntoView();
    else if (e.key === "/") { e.preventDefault(); $("index").scrollIntoView(); $("find").focus(); }
    else if (e.key === "o" && here) {
      const parts = [...here.querySelectorAll("details")];
      const unfold = parts.some((d) => !d.open);
      for (const d of parts) d.open = unfold;
    }
  });
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const d of folded) d.open = true;
  });
  addEventListener("afterprint", () => { for (const d of folded) d.open = false; });
  sift();
})();
