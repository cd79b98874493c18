// Everything is drawn once; each frame redraws itself when its width changes.

function start() {
  startTheme();
  startCurves();
  startMaps();
  startPaths();
  // Paper is white, and nothing on it can be unfolded.
  addEventListener("beforeprint", () => {
    const folded = [...document.querySelectorAll("details:not([open])")];
    for (const part of folded) part.open = true;
    const kept = document.documentElement.dataset.theme;
    setTheme("light");
    addEventListener("afterprint", () => {
      for (const part of folded) part.open = false;
      if (kept) setTheme(kept);
      else {
        delete document.documentElement.dataset.theme;
        setTheme(null);
      }
    }, { once: true });
  });
  document.documentElement.dataset.ready = "yes";
}

start();
