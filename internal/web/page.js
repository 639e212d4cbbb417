// Refreshes the page in place every two seconds. Without it the page reloads itself every
// five.
"use strict";
(() => {
  const live = document.getElementById("live");
  let fresh = Date.now();

  // What the reader opened or closed stays so.
  const keep = (main) => {
    for (const d of document.querySelectorAll("details")) {
      const twin = main.querySelector("#" + CSS.escape(d.id));
      if (twin) twin.open = d.open;
    }
  };

  async function refresh() {
    if (document.hidden) return;
    try {
      const answer = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error("status " + answer.status);
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = next.getElementById("main");
      keep(main);
      if (!String(getSelection())) document.getElementById("main").replaceWith(main); // keep what is being copied
      document.title = next.title;
      fresh = Date.now();
      live.textContent = "";
      live.className = "";
    } catch (err) {
      live.textContent = `weir has not answered for ${Math.round((Date.now() - fresh) / 1000)} s; what is shown is old. Trying again.`;
      live.className = "stale";
      document.title = "? weir";
    }
  }

  (async function loop() {
    for (;;) {
      await new Promise((done) => setTimeout(done, 2000));
      await refresh();
    }
  })();
})();
