//! Finding the tool for what somebody wants done, in English, Portuguese or Spanish.
//!
//! Two ways, tried in this order:
//!
//! 1. **Name words** (`spec/mcp-server.md` section 20): when every word of the question is part of some tool's name, each word
//!    counts three in a name and one in a description, and equals are sorted by name. Whoever knows the names gets what the
//!    reference gives.
//! 2. **Anything else** is ranked: BM25 over name, hidden keywords ([`keywords`]) and description, after folding accents,
//!    dropping filler words, cutting endings ([`words`]) and reading synonyms as one ([`lexicon`]).
//!
//! `tests/discovery/tasks.jsonl` holds the tasks by which it is judged.

mod keywords;
mod lexicon;
mod words;

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::catalogue::Tool;

/// How much a word counts by where it stands, and how much a long text weakens it there (BM25's `b`).
const NAME: Field = Field { weight: 3.0, slope: 0.6 };
const KEYWORDS: Field = Field { weight: 2.0, slope: 0.3 };
const DESCRIPTION: Field = Field { weight: 0.6, slope: 0.4 };
/// How soon repetition stops to count (BM25's `k1`).
const SATURATION: f64 = 1.6;
/// What a word counts that only begins like a known one.
const NEAR: f64 = 0.6;

struct Field {
    weight: f64,
    slope: f64,
}

/// What is known of every tool, prepared once.
#[derive(Debug)]
pub(crate) struct Index {
    /// By place in the catalogue: how much each term counts there.
    tools: Vec<HashMap<String, f64>>,
    /// How rare a term is.
    rarity: HashMap<String, f64>,
    lexicon: lexicon::Lexicon,
}

impl Index {
    /// Reads names, keywords and descriptions.
    pub(crate) fn new(tools: &[Tool]) -> Self {
        let lexicon = lexicon::Lexicon::new();
        let hidden: HashMap<&str, &str> = keywords::KEYWORDS.iter().copied().collect();
        let fields: Vec<[Vec<String>; 3]> = tools
            .iter()
            .map(|tool| {
                let read = |text: &str| lexicon.terms(text).into_iter().flatten().collect();
                [
                    read(&tool.name().replace('_', " ")),
                    read(hidden.get(tool.name()).copied().unwrap_or_default()),
                    read(tool.description()),
                ]
            })
            .collect();
        let mean = |field: usize| {
            let all: usize = fields.iter().map(|texts| texts.get(field).map_or(0, Vec::len)).sum();
            (all as f64 / fields.len().max(1) as f64).max(1.0)
        };
        let means = [mean(0), mean(1), mean(2)];
        let mut spread: HashMap<String, f64> = HashMap::new();
        let tools: Vec<HashMap<String, f64>> = fields
            .iter()
            .map(|texts| {
                let mut weights: HashMap<String, f64> = HashMap::new();
                for ((text, field), mean) in texts.iter().zip([NAME, KEYWORDS, DESCRIPTION]).zip(means) {
                    let length = 1.0 - field.slope + field.slope * text.len() as f64 / mean;
                    for term in text {
                        *weights.entry(term.clone()).or_default() += field.weight / length;
                    }
                }
                for term in weights.keys() {
                    *spread.entry(term.clone()).or_default() += 1.0;
                }
                weights
            })
            .collect();
        let count = tools.len() as f64;
        let rarity = spread.into_iter().map(|(term, n)| (term, ((count - n + 0.5) / (n + 0.5) + 1.0).ln())).collect();
        Self { tools, rarity, lexicon }
    }

    /// Places of the tools that have to do with `query`, best first; equals in the order of `names`.
    fn ranked(&self, query: &str) -> Vec<usize> {
        let words = self.lexicon.terms(query);
        // One that is not known counts as what it begins like, if anything.
        let words: Vec<(f64, Vec<&str>)> = words.iter().map(|terms| self.known(terms)).collect();
        let mut found: Vec<(usize, f64)> = self
            .tools
            .iter()
            .enumerate()
            .map(|(place, weights)| {
                let score = words
                    .iter()
                    .map(|(trust, terms)| {
                        let best = terms.iter().map(|term| self.score(weights, term)).fold(0.0, f64::max);
                        trust * best
                    })
                    .sum::<f64>();
                (place, score)
            })
            .filter(|(_, score)| *score > 0.0)
            .collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.into_iter().map(|(place, _)| place).collect()
    }

    fn score(&self, weights: &HashMap<String, f64>, term: &str) -> f64 {
        let (Some(weight), Some(rarity)) = (weights.get(term), self.rarity.get(term)) else { return 0.0 };
        rarity * weight * (SATURATION + 1.0) / (weight + SATURATION)
    }

    fn known<'a>(&'a self, terms: &'a [String]) -> (f64, Vec<&'a str>) {
        let exact: Vec<&str> =
            terms.iter().map(String::as_str).filter(|term| self.rarity.contains_key(*term)).collect();
        if !exact.is_empty() {
            return (1.0, exact);
        }
        let near: Vec<&str> = terms
            .iter()
            .flat_map(|term| self.rarity.keys().map(String::as_str).filter(|known| words::akin(term, known)))
            .collect();
        (NEAR, near)
    }
}

/// The tools among `among` that have to do with `query`, best first. None when nothing of the query is known.
pub(crate) fn search<'t>(index: &Index, all: &'t [Tool], among: &[&'t Tool], query: &str) -> Vec<&'t Tool> {
    let words: Vec<String> = query.to_lowercase().split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Vec::new();
    }
    let in_names = |word: &String| all.iter().any(|tool| tool.name().contains(word.as_str()));
    if words.iter().all(in_names) {
        return by_name(among, &words);
    }
    let shown = |tool: &&Tool| among.iter().any(|other| other.name() == tool.name());
    index.ranked(query).into_iter().filter_map(|place| all.get(place)).filter(shown).collect()
}

fn by_name<'t>(among: &[&'t Tool], words: &[String]) -> Vec<&'t Tool> {
    let score = |tool: &Tool| -> usize {
        let description = tool.description().to_lowercase();
        words
            .iter()
            .map(|word| {
                3 * usize::from(tool.name().contains(word.as_str())) + usize::from(description.contains(word.as_str()))
            })
            .sum()
    };
    let mut found: Vec<(usize, &Tool)> =
        among.iter().map(|tool| (score(tool), *tool)).filter(|(score, _)| *score > 0).collect();
    found.sort_by_key(|(score, tool)| (Reverse(*score), tool.name()));
    found.into_iter().map(|(_, tool)| tool).collect()
}

#[cfg(test)]
mod tests;
