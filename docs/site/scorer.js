// Which results of the search come first; Sphinx ranks by words only. The guides answer most questions, and
// troubleshooting lists the words of errors. Design notes and lists of pages come last.
var Scorer = {
  score: ([page, , , , score]) => {
    if (page === "guides/troubleshooting") return score + 4;
    if (page.startsWith("guides/")) return score + 2;
    if (page.startsWith("design/") || (page.startsWith("site/") && page !== "site/api")) return score - 8;
    return score;
  },
  // The rest is as Sphinx has it.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
