/* Search when the site is opened from a folder.
 *
 * Browsers refuse web workers on file: pages. The same script runs in a hidden frame
 * instead, and messages pass as they would to a worker. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => load(inner, next)), Promise.resolve());
      this.deliver = (data) =>
        inner.dispatchEvent(new inner.MessageEvent("message", { data }));
      load(inner, new URL(url, location.href).href).then(() => {
        this.isReady = true;
        this.waiting.forEach(this.deliver);
      });
    }
    postMessage(data) {
      this.isReady ? this.deliver(data) : this.waiting.push(data);
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}

function load(target, url) {
  return new Promise((done, failed) => {
    const script = target.document.createElement("script");
    script.src = url;
    script.onload = done;
    script.onerror = failed;
    target.document.body.append(script);
  });
}
