// Follows, switches the time zone, listens to keys. Every page also works without it.
"use strict";
(() => {
  const $ = (selector) => document.querySelector(selector);
  const events = $("[data-events]"), follow = $("[data-follow]"), search = $("[data-search]"), zone = $("[data-zone]");
  const maxRows = 5000;

  // Time zone: the server writes UTC, the reader may prefer local time.
  let local = false;
  try { local = localStorage.getItem("weir-zone") === "local"; } catch (e) { /* storage may be off */ }
  const two = (n) => String(n).padStart(2, "0");
  const show = (root) => {
    for (const t of root.querySelectorAll("time[datetime]")) {
      const d = new Date(t.dateTime);
      t.textContent = local
        ? `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, "0")}`
        : t.dateTime.replace("T", " ").replace("Z", "");
    }
    if (zone) zone.textContent = local ? "Local time" : "UTC";
  };
  const toggleZone = () => {
    local = !local;
    try { localStorage.setItem("weir-zone", local ? "local" : "utc"); } catch (e) { /* as above */ }
    show(document);
  };
  if (zone) { zone.hidden = false; zone.addEventListener("click", toggleZone); }
  if (local) show(document);

  const box = events || document.documentElement;
  const toEnd = () => { box.scrollTop = box.scrollHeight; };

  // Follow: ask for rows behind the last one, once a second.
  if (events && follow) {
    const atEnd = () => events.scrollTop + events.clientHeight >= events.scrollHeight - 40;
    const poll = async () => {
      if (!follow.checked || document.hidden || events.hasAttribute("data-paged")) return;
      const rows = events.dataset.rows.replace("/events?", "/_weir/rows?") + "&after=" + encodeURIComponent(events.dataset.last);
      const answer = await fetch(rows);
      if (!answer.ok) return;
      const stay = atEnd(), part = document.createElement("template");
      part.innerHTML = await answer.text(); // escaped by the server
      events.dataset.last = answer.headers.get("X-Weir-Last") || events.dataset.last;
      const fresh = [...part.content.children];
      if (!fresh.length) return;
      for (const row of fresh) row.classList.add("new");
      if (local) show(part.content);
      events.append(part.content);
      while (events.children.length > maxRows) events.firstElementChild.remove();
      const empty = $("[data-empty]");
      if (empty) empty.remove();
      if (stay) toEnd();
    };
    const loop = () => poll().catch(() => {}).finally(() => setTimeout(loop, 1000));
    follow.addEventListener("change", () => {
      const url = new URL(location.href);
      follow.checked ? url.searchParams.set("follow", "1") : url.searchParams.delete("follow");
      if (follow.checked && url.searchParams.has("before")) { url.searchParams.delete("before"); location.href = url; return; }
      history.replaceState(null, "", url);
      if (follow.checked) toEnd();
    });
    // The newest events are at the end, and the end is what one comes for.
    if (!location.hash) toEnd();
    setTimeout(loop, 1000);
  }

  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.target.matches("input[type=search], select, textarea")) {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    const up = $("[data-up]");
    switch (e.key) {
      case "/": if (search) { search.focus(); search.select(); e.preventDefault(); } break;
      case "f": if (follow) follow.click(); break;
      case "t": if (zone) toggleZone(); break;
      case "g": box.scrollTop = 0; break;
      case "G": toEnd(); break;
      case "u": if (up) location.href = up.href; break;
    }
  });
})();
