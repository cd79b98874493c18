// Everything is drawn once; each frame redraws itself when its width changes.

function start() {
  startTheme();
  startCurves();
  startMaps();
  startPaths();
  startSupport();
  // Pictures printed on paper are drawn for white paper.
  addEventListener("beforeprint", () => {
    const kept = document.documentElement.dataset.theme;
    setTheme("light");
    addEventListener("afterprint", () => {
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
