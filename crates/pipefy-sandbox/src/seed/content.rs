//! Made-up but plausible values.

use super::Garden;
use super::plan::{PipePlan, SENTENCES};
use crate::ctx::{parse_time, stamp};
use crate::error::GqlError;
use crate::json::{text, texts_at};
use crate::store::mix;
use jiff::SignedDuration;
use serde_json::{Value, json};

/// A repeatable sequence of numbers.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    /// 0 to `end` - 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'t>(&mut self, items: &[&'t str]) -> &'t str {
        let index = self.below(items.len() as u64) as usize;
        items.get(index).copied().unwrap_or_default()
    }

    fn digits(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(10) as u32).collect()
    }
}

fn joined(digits: &[u32]) -> String {
    digits.iter().map(u32::to_string).collect()
}

/// The check digit of a CPF or CNPJ: weighted sum modulo 11.
fn check_digit(digits: &[u32], longest: u32) -> u32 {
    let weights = (2..=longest).cycle();
    let sum: u32 = digits.iter().rev().zip(weights).map(|(digit, weight)| digit * weight).sum();
    match sum % 11 {
        0 | 1 => 0,
        rest => 11 - rest,
    }
}

fn cpf(dice: &mut Dice) -> String {
    let mut digits = dice.digits(9);
    for _ in 0..2 {
        digits.push(check_digit(&digits, 11));
    }
    let all = joined(&digits);
    let part = |from: usize, to: usize| all.get(from..to).unwrap_or_default();
    format!("{}.{}.{}-{}", part(0, 3), part(3, 6), part(6, 9), part(9, 11))
}

fn cnpj(dice: &mut Dice) -> String {
    let mut digits = dice.digits(8);
    digits.extend([0, 0, 0, 1]);
    for _ in 0..2 {
        digits.push(check_digit(&digits, 9));
    }
    let all = joined(&digits);
    let part = |from: usize, to: usize| all.get(from..to).unwrap_or_default();
    format!("{}.{}.{}/{}-{}", part(0, 2), part(2, 5), part(5, 8), part(8, 12), part(12, 14))
}

impl Garden<'_> {
    pub(super) fn title(&mut self, plan: &PipePlan, number: usize) -> String {
        let base = plan.titles.get(number % plan.titles.len().max(1)).copied().unwrap_or_default();
        let round = number / plan.titles.len().max(1);
        if round == 0 { base.to_owned() } else { format!("{base} #{}", round + 1) }
    }

    /// A stored value for a field; null for types that are not written.
    pub(super) fn value(&mut self, field: &Value, at: &str) -> Result<Value, GqlError> {
        let options = texts_at(field, "options");
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let kind = text(field, "type");
        let base = parse_time(at).unwrap_or(self.ctx.now);
        let days = |dice: &mut Dice| SignedDuration::from_hours(24 * (dice.below(45) as i64 - 10));
        Ok(match kind {
            "short_text" => {
                json!(format!("{}-{}", self.dice.pick(&["A", "B", "C", "OC", "NF"]), 100 + self.dice.below(900)))
            }
            "long_text" => json!(self.dice.pick(&SENTENCES)),
            "number" => json!((1 + self.dice.below(40)).to_string()),
            "currency" => json!(format!("{}.{:02}", 80 + self.dice.below(24_000), self.dice.below(100))),
            "date" => {
                let day = base.checked_add(days(&mut self.dice)).unwrap_or(base);
                json!(stamp(day).get(..10))
            }
            "datetime" | "due_date" => json!(stamp(base.checked_add(days(&mut self.dice)).unwrap_or(base))),
            "time" => json!(format!("{:02}:{:02}", 8 + self.dice.below(9), self.dice.below(4) * 15)),
            "email" => {
                let name = self.dice.pick(&["contato", "compras", "ana", "joao", "support", "office"]);
                json!(format!("{name}{}@example.com", self.dice.below(90)))
            }
            "phone" => json!(format!("+55 11 9{:04}-{:04}", self.dice.below(10_000), self.dice.below(10_000))),
            "cpf" => json!(cpf(&mut self.dice)),
            "cnpj" => json!(cnpj(&mut self.dice)),
            "select" | "radio_horizontal" | "radio_vertical" => json!(self.dice.pick(&options)),
            "checklist_horizontal" | "checklist_vertical" => {
                let checked: Vec<&str> = options.into_iter().filter(|_| self.dice.chance(60)).collect();
                if checked.is_empty() { Value::Null } else { json!(checked) }
            }
            "assignee_select" => json!([self.teammate()]),
            "label_select" => {
                let labels = self.ctx.children("label", text(field, "pipe_id"))?;
                let chosen: Vec<&str> = labels.iter().filter(|_| self.dice.chance(40)).map(|l| text(l, "id")).collect();
                if chosen.is_empty() { Value::Null } else { json!(chosen) }
            }
            "connector" => {
                let repo = text(field, "connected_repo_id").to_owned();
                let name = self.repos.iter().find(|(_, id)| **id == repo).map(|(name, _)| *name).unwrap_or_default();
                match self.item(name) {
                    Some(item) => json!([item]),
                    None => Value::Null,
                }
            }
            "attachment" => {
                if !self.dice.chance(30) {
                    return Ok(Value::Null);
                }
                let name = self.dice.pick(&["orçamento.txt", "quote.txt", "notes.txt", "contrato (1).txt"]);
                let key = format!("orgs/{}/uploads/{}/{name}", self.org_uuid, self.ctx.new_uuid()?);
                let bytes = format!("{}\n", self.dice.pick(&SENTENCES));
                self.ctx.store.put_object(&key, "text/plain", bytes.as_bytes())?;
                json!([key])
            }
            _ => Value::Null,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn check_digits_are_the_official_ones() {
        let digits = |text: &str| text.chars().filter_map(|c| c.to_digit(10)).collect::<Vec<_>>();
        let known = digits("529982247");
        assert_eq!(check_digit(&known, 11), 2);
        assert_eq!(check_digit(&digits("5299822472"), 11), 5);
        assert_eq!(check_digit(&digits("112223330001"), 9), 8);
        assert_eq!(check_digit(&digits("1122233300018"), 9), 1);
    }

    #[test]
    fn the_same_seed_rolls_the_same() {
        let roll = |seed| {
            (0..5)
                .map(|_| 0)
                .fold((Dice::new(seed), Vec::new()), |(mut dice, mut all), _| {
                    all.push(dice.below(1_000));
                    (dice, all)
                })
                .1
        };
        assert_eq!(roll(3), roll(3));
        assert_ne!(roll(3), roll(4));
    }
}
