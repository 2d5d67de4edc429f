// Ranks the entries of the book for a query. No access to the page: text in, entries and snippets out.
//
// The library MiniSearch computes BM25 over the fields of an entry, with prefixes and typing errors.
// This file says what a word is, which words mean the same, and what weighs how much.

window.bookSearch = {};

(() => {
  const FIELDS = { title: 3, page: 3, text: 1, code: 0.2 };
  const KINDS = [1, 0.8, 0.4, 0.3, 0.06]; // section, glossary term, exercise, references, API
  const NAMED = [...KINDS.slice(0, 4), 1]; // the same for a query with a name of the book, such as masked_fill
  const NAME = /\w\w[_.][a-z]|[a-z][A-Z]/; // d_k is a size, not a name of the package
  const MEANING = 0.6; // the weight of a word that the reader did not type
  const LONGEST = 200; // characters of a query
  const SNIPPET = 170; // characters
  const STARTS = ["common-mistakes.html", "glossary.html", "index.html"];

  const WORD = /\d+(?:\.\d+)+|[\p{L}\p{N}_]+(?:[-‐‑'’][\p{L}\p{N}_]+)*/gu;

  const plain = (text) =>
    text.normalize("NFKD").replace(/\p{M}/gu, "").normalize("NFKC").replace(/√/g, " sqrt ");

  /** A word without the endings of plurals and verbs, in one spelling of -ise and -ize. */
  function stem(word) {
    if (word.length < 4 || /\d/.test(word)) return word;
    let root = word.replace(/is(?=(?:e|es|ed|ing|ation|ations)$)/, "iz");
    root = root.replace(/ies$/, "y").replace(/(?<=[^su])s$/, "").replace(/(?<=ss)es$/, "");
    const shorter = root.replace(/(?:ing|ed)$/, "");
    if (shorter.length > 3 && shorter !== root) root = shorter.replace(/([bdgmnprt])\1$/, "$1");
    return root.length > 4 ? root.replace(/e$/, "") : root;
  }

  /** The terms of one word: its parts and the whole, so that post-norm, postnorm and PostNorm agree. */
  function terms(word) {
    const parts = word
      .replace(/(\p{Ll})(\p{Lu})/gu, "$1 $2")
      .toLowerCase()
      .split(/[-‐‑'’_ ]+/u)
      .filter(Boolean);
    if (parts.length === 1) return [stem(parts[0])];
    const whole = parts.join("");
    return [...parts.filter((part) => part.length > 1).map(stem), stem(whole)];
  }

  const words = (text) => plain(text).match(WORD) ?? [];
  const known = new Map();
  const tokenize = (text) =>
    words(text).flatMap((word) => {
      if (!known.has(word)) known.set(word, terms(word));
      return known.get(word);
    });

  async function create({ pages, entries, common, meanings, ignored, korean }) {
    const library = new window.MiniSearch({
      fields: Object.keys(FIELDS),
      tokenize,
      processTerm: (term) => term,
    });
    // The entries are columns, and an anchor lacks what it repeats of its title; see tools/site/search_index.py.
    const slug = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
    const whole = (start, title) => (start === "-" ? slug(title) : start.endsWith(".") ? start + title : start);
    // A character of the range below stands for a common word.
    const restored = (text) => text.replace(/[\u0500-\u12ff]/g, (code) => common[code.charCodeAt(0) - 0x500]);
    const rows = entries[0].map((place, id) => {
      const [kind, title, start, text, code] = entries.slice(1).map((column) => column[id]);
      const [address, page] = pages[place];
      const anchor = whole(start, title);
      return { id, kind, title, text: restored(text), code, page, address: address + (anchor && `#${anchor}`) };
    });
    await library.addAllAsync(rows, { chunkSize: 40 }); // the page answers between the chunks
    const counts = new Map(); // in how many entries a term occurs
    for (const { title, text, code } of rows) {
      for (const term of new Set(tokenize(`${title} ${text} ${code}`))) counts.set(term, (counts.get(term) ?? 0) + 1);
    }
    const rarity = (term) => Math.log(1 + rows.length / (counts.get(term) ?? 1));
    const unsaid = new Set(ignored.flatMap(tokenize));
    const said = Object.entries(meanings).map(([phrase, meaning]) => ({
      phrase: ` ${tokenize(phrase).join(" ")} `,
      meaning: tokenize(meaning).filter((term) => !unsaid.has(term)),
    }));

    // Korean terms, the longest first, so that the term for self-attention comes before that for attention. What
    // follows a term in its word are particles.
    const english = new Map(Object.entries(korean).flatMap(([term, names]) => names.map((name) => [name.replace(/ /g, ""), term])));
    const hangul = [...english.keys()].sort((a, b) => b.length - a.length).map((name) => [...name].join("[ -]?"));
    const names = new RegExp(`(?<![가-힣])(?:${hangul.join("|")})[가-힣]*`, "gu");
    const translated = (query) =>
      query.normalize("NFC").replace(names, (found) => {
        const name = found.replace(/[ -]/g, "");
        let end = name.length;
        while (!english.has(name.slice(0, end))) end -= 1;
        return ` ${english.get(name.slice(0, end))} `;
      });

    /** What a query asks for: for each of its words the terms that stand for it, and the weight of each term. */
    function read(query) {
      const typed = words(query).map(terms);
      const telling = typed.filter((group) => group.some((term) => !unsaid.has(term)));
      const groups = (telling.length ? telling : typed).map((group) => new Set(group));
      // "self attention" also means "self-attention", if the book has this word.
      groups.slice(1).forEach((group, before) => {
        const whole = [...groups[before]].at(-1) + [...group].at(-1);
        if (counts.has(whole)) [groups[before], group].forEach((part) => part.add(whole));
      });
      const weights = new Map(groups.flatMap((group) => [...group]).map((term) => [term, 1]));
      const line = ` ${typed.flat().join(" ")} `;
      for (const { phrase, meaning } of said) {
        if (!line.includes(phrase)) continue;
        for (const term of meaning) if (!weights.has(term)) weights.set(term, MEANING);
        for (const group of groups) {
          if ([...group].some((term) => phrase.includes(` ${term} `))) meaning.forEach((term) => group.add(term));
        }
      }
      return { groups, weights };
    }

    function search(typed, limit) {
      const query = translated(typed.slice(0, LONGEST));
      const { groups, weights } = read(query);
      const last = [...weights].findLast(([, weight]) => weight === 1)?.[0];
      const named = words(query).some((word) => NAME.test(word) && counts.has(terms(word).at(-1)));
      const kinds = named ? NAMED : KINDS;
      const unknown = (term) => weights.get(term) === 1 && !counts.has(term);
      const found = library.search([...weights.keys()].join(" "), {
        tokenize: (line) => line.split(" "),
        boost: FIELDS,
        boostTerm: (term) => weights.get(term),
        boostDocument: (id) => kinds[rows[id].kind],
        // A word that the book has is meant as it is; the last one may not be complete.
        prefix: (term) => term === last || (unknown(term) && term.length > 3),
        fuzzy: (term) => (unknown(term) && term.length > 4 ? 0.2 : false),
      });
      // A section with all the words of the query ranks before one that has a single word in its title; a rare word
      // counts more than a common one.
      const telling = (group) => Math.max(...[...group].map((term) => (weights.get(term) === 1 ? rarity(term) : 0)));
      const sum = (some) => some.reduce((total, group) => total + telling(group), 0);
      const rank = ({ score, queryTerms }) => {
        const covered = groups.filter((group) => queryTerms.some((term) => group.has(term)));
        return score * (0.2 + sum(covered) / sum(groups)) ** 2;
      };
      const order = found.map((hit) => [rank(hit), hit]).sort(([a], [b]) => b - a);
      return order.slice(0, limit).map(([, { id, terms, queryTerms }]) => {
        // Words that are only similar are marked if the query is misspelled.
        const meant = terms.filter((term) => queryTerms.some((word) => term.startsWith(word)));
        return { ...rows[id], matched: meant.length ? meant : terms };
      });
    }

    /** What to offer for a query without results: sections with similar words, and the pages to start from. */
    function suggest(query, limit) {
      const options = { tokenize, boost: FIELDS, boostDocument: (id) => KINDS[rows[id].kind], fuzzy: 0.4 };
      const similar = library.search(query.slice(0, LONGEST), options).slice(0, limit - STARTS.length);
      const starts = STARTS.map((address) => rows.find((row) => row.address === address)).filter(Boolean);
      return [...similar.map(({ id, terms }) => ({ ...rows[id], matched: terms })), ...starts.map((row) => ({ ...row, matched: [] }))];
    }
    return { search, suggest };
  }

  /** The text in pieces, [piece, whether it matches], shortened around the most matches. */
  function mark(text, matched, length = Infinity) {
    const wanted = new Set(matched);
    const hits = [...text.matchAll(WORD)]
      .filter(([word]) => tokenize(word).some((term) => wanted.has(term)))
      .map(({ index, 0: word }) => ({ start: index, end: index + word.length, word: word.toLowerCase() }));
    let [from, to] = [0, text.length];
    if (text.length > length) {
      const value = (first) =>
        new Set(hits.filter(({ start, end }) => start >= first && end <= first + length).map(({ word }) => word)).size;
      const starts = [0, ...hits.map(({ start }) => Math.max(0, start - 30))];
      const best = starts.reduce((a, b) => (value(b) > value(a) ? b : a));
      from = best && text.indexOf(" ", best) + 1;
      to = from + length < text.length ? text.lastIndexOf(" ", from + length) : text.length;
      if (to <= from) to = from + length;
    }
    const pieces = from > 0 ? [["… ", false]] : [];
    let at = from;
    for (const { start, end } of hits) {
      if (start < from || end > to) continue;
      pieces.push([text.slice(at, start), false], [text.slice(start, end), true]);
      at = end;
    }
    pieces.push([text.slice(at, to) + (to < text.length ? " …" : ""), false]);
    return pieces.filter(([piece]) => piece);
  }

  Object.assign(window.bookSearch, {
    create,
    mark,
    tokenize,
    snippet: (text, matched) => mark(text, matched, SNIPPET),
  });
})();
