// Requests that are repeated every ten seconds while the tab is visible.

const POLL_MS = 10_000;

/**
 * Calls `poll` now and ten seconds after each call has ended, while the tab is visible and `isPaused` is false; at once when
 * the tab becomes visible. Ends with `signal`.
 *
 * @param {() => Promise<any>} poll
 * @param {AbortSignal} signal
 * @param {() => boolean} [isPaused]
 */
export function startPolling(poll, signal, isPaused = () => false) {
  let timer = 0;
  async function run() {
    clearTimeout(timer);
    if (document.visibilityState === "visible" && !isPaused()) await poll();
    clearTimeout(timer);
    if (!signal.aborted) timer = setTimeout(run, POLL_MS);
  }
  document.addEventListener("visibilitychange", () => void (document.visibilityState === "visible" && run()), {
    signal,
  });
  signal.addEventListener("abort", () => clearTimeout(timer));
  void run();
}
