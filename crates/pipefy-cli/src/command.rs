//! A command is one row of a table: its words, what it takes, the capability behind it and how its result is shown.
//!
//! To add one: a literal in `commands/<group>.rs`. The first of an option's `flags` is what help shows; the name after it
//! is the argument of the capability that the value becomes.
//!
//! ```ignore
//! Command::new("card move", "move_card_to_phase", "Move a card to another phase.")
//!     .takes(&[id("card_id", "Card id"), text("--phase", "destination_phase_id", "Id of the phase").required()])
//! ```
//!
//! `--json`, `--yes` and the options that many capabilities share (`--fields`, `--all`, `--dry-run`, ...) are added from
//! the row and from the operation. A row whose capability does not exist is not listed.

use futures_util::future::BoxFuture;
use pipefy_tools::Outcome;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::flow::Flow;
use crate::output::Shown;

/// One command.
pub(crate) struct Command {
    /// Its words, e.g. `card comment add`.
    pub(crate) path: &'static str,
    /// One line for help.
    pub(crate) about: &'static str,
    /// What it takes; positional arguments first.
    pub(crate) params: &'static [Param],
    /// The capability behind it, whose shared options it offers; empty for a command about this program.
    pub(crate) tool: &'static str,
    /// Further capabilities that it needs.
    pub(crate) also: &'static [&'static str],
    /// What it does with what was given.
    pub(crate) route: Route,
    /// Who says yes.
    pub(crate) consent: Consent,
    /// Which part of the result is shown.
    pub(crate) show: Show,
    /// How a person chooses between the two forms of output.
    pub(crate) form: Form,
    /// Whether it offers the options that many capabilities share.
    pub(crate) shares: bool,
}

/// What a command does with what was given.
pub(crate) enum Route {
    /// Calls its capability.
    Call,
    /// Checks or completes the arguments, then calls its capability.
    Prepared(fn(&mut Map<String, Value>) -> Result<(), Failure>),
    /// Picks one of its capabilities by what was given, then calls it.
    OneOf(fn(&mut Map<String, Value>) -> Result<&'static str, Failure>),
    /// Something of its own.
    Flow(FlowFn),
    /// Something that needs neither settings-bound engine nor credential.
    Local(LocalFn),
}

/// A command of several steps.
pub(crate) type FlowFn = for<'a> fn(&'a Flow<'a>, Map<String, Value>) -> BoxFuture<'a, Result<Shown, Failure>>;

/// A command about this program or this machine.
pub(crate) type LocalFn =
    for<'a> fn(&'a crate::run::Start, Map<String, Value>) -> BoxFuture<'a, Result<Shown, Failure>>;

/// Who says yes before something irreversible happens.
pub(crate) enum Consent {
    /// Nobody needs to.
    None,
    /// The person at the terminal, or `--yes`: "Permanently <verb> <description>?".
    Ask(&'static str, fn(&Map<String, Value>) -> String),
    /// As `Ask`, but only when this holds for what was given.
    AskWhen(&'static str, fn(&Map<String, Value>) -> String, fn(&Map<String, Value>) -> bool),
    /// Only `--yes` (no short form), and only when the capability says that it changes something.
    Flag,
    /// `--yes`; without it the draft is shown and nothing is sent.
    Draft,
}

/// Which part of a result is shown.
pub(crate) enum Show {
    /// All of it, as Pipefy gave it.
    Body,
    /// What is under this key.
    At(&'static str),
    /// `success: true`, then the keys of the result.
    Success,
    /// `success: true` and the result, or its part of this name, under this name.
    SuccessAs(&'static str),
    /// `success: true`, the sentence about it, then the keys of the result.
    Told,
    /// That this root field of a deletion succeeded, as Pipefy answers it.
    Done(&'static str),
    /// All of it under this key.
    Under(&'static str),
    /// Something of its own.
    With(fn(Outcome) -> Value),
}

/// How a person chooses between the two forms of output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people, with `--json` for programs.
    Human,
    /// For programs, with `--rich` for people.
    Json,
    /// Text only.
    Text,
}

/// One argument or option.
#[derive(Clone, Copy)]
pub(crate) struct Param {
    /// The argument of the capability that the value becomes.
    pub(crate) name: &'static str,
    /// `--phase`, `--title -t`, with a pair `--active / --inactive`; empty for a positional argument.
    pub(crate) flags: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) required: bool,
    pub(crate) many: bool,
    pub(crate) default: Preset,
}

/// What a value is.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Text as typed.
    Text,
    /// A positional resource id, which may start with one hyphen.
    Id,
    /// A whole number within bounds.
    Int(i64, i64),
    /// A number within bounds.
    Float(f64, f64),
    /// Present or not.
    Flag,
    /// Yes, no, or not given.
    Pair,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// JSON text of this shape.
    Json(Shape),
    /// Items between commas.
    Commas,
    /// Items between commas or spaces.
    Words,
    /// A path of a file.
    Path,
    /// A path of a UTF-8 text file of at most 2 MiB; the value becomes its text.
    TextFile,
}

/// The shapes of JSON options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    Array,
    ObjectOrArray,
    Any,
}

/// The value of a param that was not given.
#[derive(Clone, Copy)]
pub(crate) enum Preset {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'static str),
}

impl Preset {
    /// As JSON; `None` when there is none.
    pub(crate) fn value(self) -> Option<Value> {
        match self {
            Self::None => None,
            Self::Bool(on) => Some(on.into()),
            Self::Int(number) => Some(number.into()),
            Self::Float(number) => Some(number.into()),
            Self::Text(text) => Some(text.into()),
        }
    }
}

impl Command {
    /// A command that calls one capability and shows its result.
    pub(crate) const fn new(path: &'static str, tool: &'static str, about: &'static str) -> Self {
        Self {
            path,
            about,
            params: &[],
            tool,
            also: &[],
            route: Route::Call,
            consent: Consent::None,
            show: Show::Body,
            form: Form::Human,
            shares: true,
        }
    }

    /// A command about this program or this machine.
    pub(crate) const fn local(path: &'static str, about: &'static str, run: LocalFn) -> Self {
        let mut command = Self::new(path, "", about);
        command.route = Route::Local(run);
        command
    }

    /// What it takes.
    pub(crate) const fn takes(mut self, params: &'static [Param]) -> Self {
        self.params = params;
        self
    }

    /// Checks or completes the arguments before anything else happens.
    pub(crate) const fn prepare(mut self, prepare: fn(&mut Map<String, Value>) -> Result<(), Failure>) -> Self {
        self.route = Route::Prepared(prepare);
        self
    }

    /// Calls its capability or one of `others`, as `pick` says.
    pub(crate) const fn or(
        mut self,
        others: &'static [&'static str],
        pick: fn(&mut Map<String, Value>) -> Result<&'static str, Failure>,
    ) -> Self {
        self.also = others;
        self.route = Route::OneOf(pick);
        self
    }

    /// Runs several steps, which may call its capability and `others`.
    pub(crate) const fn flow(mut self, others: &'static [&'static str], run: FlowFn) -> Self {
        self.also = others;
        self.route = Route::Flow(run);
        self
    }

    /// Asks "Permanently delete <what>?" first.
    pub(crate) const fn deletes(self, what: fn(&Map<String, Value>) -> String) -> Self {
        self.asks("delete", what)
    }

    /// Asks "Permanently <verb> <what>?" first.
    pub(crate) const fn asks(mut self, verb: &'static str, what: fn(&Map<String, Value>) -> String) -> Self {
        self.consent = Consent::Ask(verb, what);
        self
    }

    /// Asks first when `when` holds.
    pub(crate) const fn asks_when(
        mut self,
        verb: &'static str,
        what: fn(&Map<String, Value>) -> String,
        when: fn(&Map<String, Value>) -> bool,
    ) -> Self {
        self.consent = Consent::AskWhen(verb, what, when);
        self
    }

    /// Sets who says yes.
    pub(crate) const fn consent(mut self, consent: Consent) -> Self {
        self.consent = consent;
        self
    }

    /// Shows this part of the result.
    pub(crate) const fn shows(mut self, show: Show) -> Self {
        self.show = show;
        self
    }

    /// Sets how a person chooses between the two forms of output.
    pub(crate) const fn form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// Offers none of the options that many capabilities share.
    pub(crate) const fn alone(mut self) -> Self {
        self.shares = false;
        self
    }

    /// Its last word.
    pub(crate) fn name(&self) -> &'static str {
        self.path.rsplit_once(' ').map_or(self.path, |(_, name)| name)
    }

    /// What it may be about, as keys of results name it: `pipe list` is about `pipes`, `phase cards` about `cards`.
    pub(crate) fn nouns(&self) -> Vec<String> {
        let group = self.path.rsplit(' ').nth(1).unwrap_or_default();
        let group = format!("{}s", group.trim_end_matches('s').replace('-', "_"));
        // Phases that cards can go to.
        let targets = (self.name() == "targets").then(|| "cards_can_be_moved_to_phases".to_owned());
        [self.name().to_owned(), group].into_iter().chain(targets).collect()
    }

    /// Its positional arguments.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &'static Param> {
        self.params.iter().filter(|param| param.is_positional())
    }

    /// Its options.
    pub(crate) fn options(&self) -> impl Iterator<Item = &'static Param> {
        self.params.iter().filter(|param| !param.is_positional())
    }

    /// Whether a positional argument may start with a hyphen.
    pub(crate) fn takes_ids(&self) -> bool {
        self.params.iter().any(|param| matches!(param.kind, Kind::Id))
    }

    /// The capabilities it needs.
    pub(crate) fn needs(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.tool).chain(self.also.iter().copied()).filter(|tool| !tool.is_empty())
    }

    /// Whether it takes this option of its own.
    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        self.options().any(|param| param.flags().any(|own| own == flag))
    }
}

impl Param {
    const fn new(flags: &'static str, name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, flags, kind, help, required: false, many: false, default: Preset::None }
    }

    /// Must be given.
    pub(crate) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Need not be given (positional arguments).
    pub(crate) const fn optional(mut self) -> Self {
        self.required = false;
        self
    }

    /// May be repeated.
    pub(crate) const fn many(mut self) -> Self {
        self.many = true;
        self
    }

    /// Within these bounds.
    pub(crate) const fn range(mut self, min: i64, max: i64) -> Self {
        self.kind = Kind::Int(min, max);
        self
    }

    /// At least this.
    pub(crate) const fn at_least(mut self, min: f64) -> Self {
        self.kind = Kind::Float(min, f64::INFINITY);
        self
    }

    /// The value when it is not given.
    pub(crate) const fn or(mut self, preset: Preset) -> Self {
        self.default = preset;
        self
    }

    /// Whether it is a positional argument.
    pub(crate) fn is_positional(&self) -> bool {
        self.flags.is_empty()
    }

    /// All its flags but the negative one of a pair, e.g. `--title` and `-t`.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let positive = self.flags.split_once(" / ").map_or(self.flags, |(positive, _)| positive);
        positive.split_whitespace()
    }

    /// The negative flag of a pair.
    pub(crate) fn negative(&self) -> Option<&'static str> {
        self.flags.split_once(" / ").map(|(_, negative)| negative)
    }

    /// The long flag, as help shows it.
    pub(crate) fn flag(&self) -> &'static str {
        self.flags().next().unwrap_or(self.name)
    }

    /// Whether a value follows its flag.
    pub(crate) fn takes_value(&self) -> bool {
        !matches!(self.kind, Kind::Flag | Kind::Pair)
    }
}

/// A positional resource id.
pub(crate) const fn id(name: &'static str, help: &'static str) -> Param {
    Param::new("", name, Kind::Id, help).required()
}

/// Any other positional argument.
pub(crate) const fn word(name: &'static str, help: &'static str) -> Param {
    Param::new("", name, Kind::Text, help).required()
}

/// An option with text.
pub(crate) const fn text(flags: &'static str, name: &'static str, help: &'static str) -> Param {
    Param::new(flags, name, Kind::Text, help)
}

/// An option with a whole number.
pub(crate) const fn int(flags: &'static str, name: &'static str, help: &'static str) -> Param {
    Param::new(flags, name, Kind::Int(i64::MIN, i64::MAX), help)
}

/// An option with a number.
pub(crate) const fn float(flags: &'static str, name: &'static str, help: &'static str) -> Param {
    Param::new(flags, name, Kind::Float(f64::NEG_INFINITY, f64::INFINITY), help)
}

/// An option that is present or not.
pub(crate) const fn flag(flags: &'static str, name: &'static str, help: &'static str) -> Param {
    Param::new(flags, name, Kind::Flag, help).or(Preset::Bool(false))
}

/// A pair of options, `--active / --inactive`; not given is a third state.
pub(crate) const fn pair(flags: &'static str, name: &'static str, help: &'static str) -> Param {
    Param::new(flags, name, Kind::Pair, help)
}

/// An option with one of these words.
pub(crate) const fn choice(
    flags: &'static str,
    name: &'static str,
    words: &'static [&'static str],
    help: &'static str,
) -> Param {
    Param::new(flags, name, Kind::Choice(words), help)
}

/// An option with a JSON object.
pub(crate) const fn object(flags: &'static str, name: &'static str, help: &'static str) -> Param {
    Param::new(flags, name, Kind::Json(Shape::Object), help)
}

/// An option with a JSON array.
pub(crate) const fn array(flags: &'static str, name: &'static str, help: &'static str) -> Param {
    Param::new(flags, name, Kind::Json(Shape::Array), help)
}

/// An option with JSON of this shape.
pub(crate) const fn json(flags: &'static str, name: &'static str, shape: Shape, help: &'static str) -> Param {
    Param::new(flags, name, Kind::Json(shape), help)
}

/// An option with items between commas.
pub(crate) const fn commas(flags: &'static str, name: &'static str, help: &'static str) -> Param {
    Param::new(flags, name, Kind::Commas, help)
}

/// An option with items between commas or spaces.
pub(crate) const fn words(flags: &'static str, name: &'static str, help: &'static str) -> Param {
    Param::new(flags, name, Kind::Words, help)
}

/// An option with the path of a file.
pub(crate) const fn path(flags: &'static str, name: &'static str, help: &'static str) -> Param {
    Param::new(flags, name, Kind::Path, help)
}

/// An option with the path of a text file, whose text is the value.
pub(crate) const fn text_file(flags: &'static str, name: &'static str, help: &'static str) -> Param {
    Param::new(flags, name, Kind::TextFile, help)
}

/// `<noun> <value of this argument>`, for the question before something irreversible.
pub(crate) fn named(noun: &str, name: &str, given: &Map<String, Value>) -> String {
    let id = given.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    format!("{noun} {}", id.unwrap_or_default())
}
