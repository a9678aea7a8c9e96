"use strict";
// Answers, zoomed figures, the language, and a search: its words in Chinese, its quotations.

// Sphinx splits a query at spaces, which Chinese has none of. The index holds the words that jieba has
// cut, so a run of Chinese is cut into the longest words that the index knows.
var splitQuery = (query) => {
  const known = typeof Search !== "undefined" && Search._index ? Search._index.terms : {};
  const titles = typeof Search !== "undefined" && Search._index ? Search._index.titleterms : {};
  const found = [];
  for (const part of query.split(/[^\p{L}\p{N}_\p{Emoji_Presentation}]+/gu)) {
    for (const run of part.match(/[\u3400-\u9fff]+|[^\u3400-\u9fff]+/g) || []) {
      if (!/[\u3400-\u9fff]/.test(run)) {
        found.push(run);
        continue;
      }
      for (let start = 0; start < run.length; ) {
        let end = Math.min(run.length, start + 8);
        while (end > start + 1 && !Object.hasOwn(known, run.slice(start, end)) &&
               !Object.hasOwn(titles, run.slice(start, end))) end -= 1;
        if (end > start + 1 || run.length === 1) found.push(run.slice(start, end));
        start = end;
      }
    }
  }
  return found;
};

document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search !== "undefined") {
    // What a result quotes is the article, not the buttons and headings above it.
    Search.htmlToText = (page, anchor) => {
      const found = new DOMParser().parseFromString(page, "text/html");
      found.querySelectorAll(".headerlink, script, style").forEach((each) => each.remove());
      const article = found.querySelector(".bd-article");
      return ((anchor && article?.querySelector(anchor)) || article)?.textContent || "";
    };
  }

  const language = document.documentElement.lang.startsWith("zh") ? "zh" : "en";
  try {
    localStorage.setItem("book-language", language);
  } catch (error) {
    // a browser that keeps nothing
  }

  const button = document.querySelector(".book-answers");
  if (button) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      button.textContent = shown ? button.dataset.hide : button.dataset.show;
      document
        .querySelectorAll(".tag_answer details, .bd-article section > details")
        .forEach((each) => (each.open = shown));
    });
  }

  const dialog = document.createElement("dialog");
  dialog.className = "book-zoom";
  dialog.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  document.querySelectorAll(".bd-article .cell_output img").forEach((image) => {
    image.tabIndex = 0;
    image.setAttribute("role", "button");
    const zoom = () => {
      const copy = document.createElement("img");
      copy.src = image.src;
      copy.alt = image.alt;
      dialog.replaceChildren(copy);
      dialog.showModal();
    };
    image.addEventListener("click", zoom);
    image.addEventListener("keydown", (event) => event.key === "Enter" && zoom());
  });

  // The arrows of the table of contents are pictures without words.
  document.querySelectorAll("nav details > summary").forEach((each) => {
    const chapter = each.closest("li").querySelector("a").textContent.trim();
    each.setAttribute("aria-label", (language === "zh" ? "展开或收起：" : "Show or hide: ") + chapter);
  });

  // What scrolls sideways can be reached by the keyboard.
  document.querySelectorAll(".bd-article pre, .bd-article table").forEach((each) => {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
  });
});
