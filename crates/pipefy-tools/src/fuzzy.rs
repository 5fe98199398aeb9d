//! How well a name fits what somebody typed: the weighted ratio of RapidFuzz 3 (`spec/tools-pipes-cards.md`, "Fuzzy pipe
//! search"). Scores are 0..100, lengths are in characters, a score below its cutoff is 0.

use std::collections::BTreeSet;

use rapidfuzz::distance::indel;

/// Names below this score are no match.
pub(crate) const CUTOFF: f64 = 70.0;

/// 100 when `name` contains `query` (in any case), else their weighted ratio, else `None`.
pub(crate) fn score(query: &str, name: &str) -> Option<f64> {
    if name.to_lowercase().contains(&query.to_lowercase()) {
        return Some(100.0);
    }
    Some(weighted_ratio(query, name, CUTOFF)).filter(|score| *score > 0.0)
}

/// A score as it is shown, with one decimal.
pub(crate) fn rounded(score: f64) -> f64 {
    (score * 10.0).round() / 10.0
}

fn weighted_ratio(left: &str, right: &str, cutoff: f64) -> f64 {
    const TOKENS: f64 = 0.95;
    let (a, b) = (chars(left), chars(right));
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    let length_ratio = a.len().max(b.len()) as f64 / a.len().min(b.len()) as f64;
    let best = ratio(&a, &b, cutoff);
    let best = if length_ratio < 1.5 {
        best.max(TOKENS * token_ratio(left, right, cutoff.max(best) / TOKENS))
    } else {
        let partial = if length_ratio <= 8.0 { 0.9 } else { 0.6 };
        let best = best.max(partial * partial_ratio(&a, &b, cutoff.max(best) / partial));
        best.max(TOKENS * partial * partial_token_ratio(left, right, cutoff.max(best) / TOKENS))
    };
    at_least(best, cutoff)
}

fn at_least(score: f64, cutoff: f64) -> f64 {
    if score >= cutoff { score } else { 0.0 }
}

fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

/// Insertions and deletions that turn one into the other.
fn distance(a: &[char], b: &[char]) -> usize {
    indel::distance(a.iter().copied(), b.iter().copied())
}

fn normalized(distance: usize, length: usize) -> f64 {
    if length == 0 { 100.0 } else { 100.0 - 100.0 * distance as f64 / length as f64 }
}

fn ratio(a: &[char], b: &[char], cutoff: f64) -> f64 {
    at_least(normalized(distance(a, b), a.len() + b.len()), cutoff)
}

/// The best ratio of the shorter one against any part of the longer one.
fn partial_ratio(a: &[char], b: &[char], cutoff: f64) -> f64 {
    let best = match a.len().cmp(&b.len()) {
        std::cmp::Ordering::Less => best_part(a, b),
        std::cmp::Ordering::Greater => best_part(b, a),
        std::cmp::Ordering::Equal => best_part(a, b).max(best_part(b, a)),
    };
    at_least(best, cutoff)
}

fn best_part(short: &[char], long: &[char]) -> f64 {
    let width = short.len();
    let prefixes = (1..width).filter_map(|end| long.get(..end));
    let windows = long.windows(width.max(1));
    let suffixes = (long.len() - width + 1..long.len()).filter_map(|start| long.get(start..));
    prefixes.chain(windows).chain(suffixes).map(|part| ratio(short, part, 0.0)).fold(0.0, f64::max)
}

fn sorted_tokens(text: &str) -> Vec<&str> {
    let mut tokens: Vec<&str> = text.split_whitespace().collect();
    tokens.sort_unstable();
    tokens
}

/// Tokens in common, only left, only right; each sorted and without repetition.
fn token_sets<'t>(left: &[&'t str], right: &[&'t str]) -> [Vec<&'t str>; 3] {
    let (a, b): (BTreeSet<&str>, BTreeSet<&str>) = (left.iter().copied().collect(), right.iter().copied().collect());
    [a.intersection(&b).copied().collect(), a.difference(&b).copied().collect(), b.difference(&a).copied().collect()]
}

/// The better of: tokens in order, and tokens as sets.
fn token_ratio(left: &str, right: &str, cutoff: f64) -> f64 {
    let (left, right) = (sorted_tokens(left), sorted_tokens(right));
    let sorted = ratio(&chars(&left.join(" ")), &chars(&right.join(" ")), cutoff);
    if left.is_empty() || right.is_empty() {
        return sorted;
    }
    let [common, only_left, only_right] = token_sets(&left, &right);
    if !common.is_empty() && (only_left.is_empty() || only_right.is_empty()) {
        return at_least(100.0, cutoff);
    }
    let (ab, ba) = (chars(&only_left.join(" ")), chars(&only_right.join(" ")));
    let shared = common.join(" ").chars().count();
    let gap = usize::from(shared > 0);
    let (left_length, right_length) = (shared + gap + ab.len(), shared + gap + ba.len());
    let mut best = normalized(distance(&ab, &ba), left_length + right_length);
    if shared > 0 {
        best = best
            .max(normalized(1 + ab.len(), shared + left_length))
            .max(normalized(1 + ba.len(), shared + right_length));
    }
    sorted.max(at_least(best, cutoff))
}

fn partial_token_ratio(left: &str, right: &str, cutoff: f64) -> f64 {
    let (left, right) = (sorted_tokens(left), sorted_tokens(right));
    let [common, only_left, only_right] = token_sets(&left, &right);
    if !common.is_empty() {
        return at_least(100.0, cutoff);
    }
    let joined = partial_ratio(&chars(&left.join(" ")), &chars(&right.join(" ")), cutoff);
    joined.max(partial_ratio(&chars(&only_left.join(" ")), &chars(&only_right.join(" ")), cutoff))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    /// Query, name, score at cutoff 70 with one decimal; the first group is the specification's, all were checked against
    /// RapidFuzz.
    const GOLDEN: &[(&str, &str, f64)] = &[
        ("Sao Paulo", "Vendas São Paulo", 85.5),
        ("Gestao", "Gestão de Clientes", 75.0),
        ("Producao", "Produção", 75.0),
        ("Sales pipe", "Pipe of Sales", 74.3),
        ("onboarding", "Employee On-boarding", 81.0),
        ("custoemr suport", "Customer Support", 77.4),
        ("Marketng", "Marketing", 94.1),
        ("bug trcker", "Bug Tracker [v2.0]", 72.0),
        ("finance q1", "Q1 Finance Requests", 72.0),
        ("recruitment", "Recruiting", 0.0),
        ("HR", "Human Resources", 0.0),
        ("abc", "ABD", 0.0),
        ("sales", "Slaes 2024", 0.0),
        ("a b c", "c b a", 95.0),
        ("a b", "a b c d e f g h", 90.0),
        ("fuzzy was a bear", "fuzzy fuzzy was a bear", 95.0),
        ("new york mets", "new york mets vs atlanta braves", 90.0),
        ("x", "xxxxxxxxxxxxxxxxxxxx", 0.0),
        ("  ", "a", 0.0),
        ("Suporte N1", "Suporte N2", 90.0),
        ("Compras", "Requisição de Compras e Pagamentos 2024", 90.0),
        ("ção", "Ações", 0.0),
        ("漢字", "漢字テスト 漢字", 90.0),
        ("reembolso de despesas", "Despesas - Reembolso", 78.8),
        ("kanban", "Kanban board for the whole company and more", 75.0),
        ("contas a pagar", "Contas a Receber", 0.0),
        ("ab", "ba", 0.0),
        ("abcd", "dcba", 0.0),
        ("pipe", "Pipe", 75.0),
        ("vendas", "Vendas Vendas Vendas", 81.8),
        ("test pipe 1", "pipe test", 95.0),
        ("aaa aaa", "aaa", 90.0),
        ("qq ww ee", "ee rr tt yy", 0.0),
        ("hiring process", "Hirng Proces", 76.9),
        ("hiring process", "Process of hiring new people in the company", 85.5),
        ("ti", "Chamados de TI", 0.0),
        ("Juridico", "Jurídico - Contratos", 78.8),
        ("o", "o", 100.0),
        ("onboard", "On board", 80.0),
        ("a", "b", 0.0),
        ("ab cd", "abcd", 88.9),
        ("one two three four", "four three two", 95.0),
        ("Atendimento ao cliente", "Cliente: atendimento", 0.0),
        ("x y", "y x z", 85.5),
        ("lead", "Leads & Deals / 2024 [EU]", 0.0),
        ("[v2.0]", "Bug Tracker [v2.0]", 90.0),
        ("vndas 2024 pipe", "customer", 0.0),
        ("fnance", "pipe 2024 pipe finance pipe vendas", 75.0),
        ("cmpras", "[v2] onboarding de de", 0.0),
        ("bu", "gestão onboarding vendas do", 0.0),
        ("do support pipe", "requests de requests 2024 q1 sales", 0.0),
        ("finace 2024", "do support gestão de", 0.0),
        ("sales do", "gestão hr requests sales vendas [v2] q1", 85.5),
        ("pipe compras suppot compras", "gestão customer onboarding pipe", 0.0),
        ("q1 do customer", "do", 90.0),
        ("gestão bug sales compras", "q1 vendas sales bug requests", 0.0),
        ("finance 2024", "finance compras bug do q1 sales", 85.5),
        ("onboarding compras", "sales do q1 support", 0.0),
        ("gestão endas", "vendas", 81.8),
        ("[v2] compras", "compras sales hr compras requests bug finance", 85.5),
        ("bug vendas vends bug", "sales de gestão sales vendas", 0.0),
        ("ipe", "compras hr", 0.0),
        ("bug financ bug hr", "compras de vendas [v2] customer", 0.0),
        ("q1 vendas", "vendas de finance", 85.5),
        ("onboarding [v2 compras q1", "support q1 sales", 85.5),
        ("spport", "hr pipe gestão", 0.0),
        ("[v2 support", "sales support hr", 73.9),
        ("gestão", "pipe gestão compras", 90.0),
        ("pipe sales saes", "bug compras bug do finance de", 0.0),
        ("2024 1", "vendas", 0.0),
        ("finance reqests pipe", "gestão gestão hr de", 0.0),
        ("o", "bug compras finance", 0.0),
        ("bu", "vendas 2024 onboarding do vendas requests vendas", 0.0),
        ("024", "de pipe sales finance do hr sales", 0.0),
        ("finance compras finance", "de do 2024 support do requests", 0.0),
        ("hr ustomer compras do", "bug requests de", 0.0),
    ];

    #[test]
    fn scores_are_those_of_rapidfuzz() {
        for (query, name, expected) in GOLDEN {
            let got = rounded(weighted_ratio(query, name, CUTOFF));
            assert!((got - expected).abs() < 0.05, "{query:?} / {name:?}: {got}, expected {expected}");
        }
    }

    #[test]
    fn a_name_that_contains_the_query_is_a_full_match_in_any_case() {
        assert_eq!(score("SALES", "My Sales [EU]"), Some(100.0));
        assert_eq!(score("recruitment", "Recruiting"), None);
    }

    proptest! {
        #[test]
        fn any_two_texts_get_a_score_within_bounds(a in "\\PC{0,70}", b in "\\PC{0,70}") {
            let score = weighted_ratio(&a, &b, CUTOFF);
            prop_assert!(score == 0.0 || (CUTOFF..=100.0).contains(&score));
            prop_assert!(a.trim().is_empty() || weighted_ratio(&a, &a, CUTOFF) == 100.0);
        }
    }
}
