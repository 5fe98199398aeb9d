// Asks for the page again whenever the sandbox says that something was written, and marks the cards that changed.
(() => {
  "use strict";
  const seen = () => new Map([...document.querySelectorAll("[data-card]")].map((card) => [card.dataset.card, card.dataset.stamp]));
  const places = () => [...document.querySelectorAll(".board, .cards, .activity")].map((box) => [box.scrollLeft, box.scrollTop]);
  let busy = false;
  let again = false;
  async function renew() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#live");
      if (fresh) {
        const [before, scrolled] = [seen(), places()];
        document.querySelector("#live").replaceWith(fresh);
        document.querySelectorAll(".board, .cards, .activity").forEach((box, index) => {
          [box.scrollLeft, box.scrollTop] = scrolled[index] ?? [0, 0];
        });
        for (const card of document.querySelectorAll("[data-card]")) {
          if (before.get(card.dataset.card) !== card.dataset.stamp) {
            card.classList.add("fresh");
          }
        }
        live(true);
      }
    } finally {
      busy = false;
      if (again) {
        again = false;
        renew();
      }
    }
  }
  const live = (on) => document.querySelectorAll("#pulse").forEach((mark) => { mark.hidden = !on; });
  if (document.querySelector("#live")) {
    const source = new EventSource("/board/changes");
    source.onopen = () => live(true);
    source.onerror = () => live(false);
    source.onmessage = renew;
  }
})();
