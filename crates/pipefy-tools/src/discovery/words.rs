//! Words as they are compared: small letters without accents, without filler words, without endings.

/// Words that say nothing about what is wanted, in the three languages.
const FILLERS: &[&str] = &[
    // English
    "a", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do", "does", "for",
    "from", "had", "has", "have", "her", "his", "how", "i", "if", "in", "into", "is", "it", "its", "let", "me", "must",
    "my", "of", "on", "or", "our", "please", "s", "should", "so", "some", "someone", "somebody", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "to", "up", "us", "want", "was", "we", "were",
    "will", "with", "would", "you", "your", // Portuguese
    "ao", "aos", "as", "com", "como", "da", "das", "de", "dele", "dela", "desse", "deste", "do", "dos", "e", "ela",
    "ele", "em", "entre", "essa", "esse", "esta", "estao", "este", "eu", "foi", "ir", "isso", "isto", "ja", "mais",
    "meu", "minha", "na", "nas", "no", "nos", "nossa", "nosso", "o", "os", "ou", "para", "pela", "pelo", "pode", "por",
    "posso", "pra", "preciso", "quero", "que", "sao", "se", "sem", "ser", "seu", "sua", "tem", "ter", "um", "uma",
    "voce", "nova", "novo", "foram", // Spanish
    "al", "con", "cuando", "del", "el", "ella", "en", "es", "ese", "estan", "fue", "fueron", "han", "hay", "la", "las",
    "le", "les", "lo", "los", "mas", "mi", "mis", "necesito", "nuestra", "nuestro", "para", "pero", "por", "puede",
    "puedo", "quiero", "si", "sin", "son", "su", "sus", "te", "tiene", "tienen", "tu", "un", "una", "unos", "unas",
    "y", "ya", "yo", "each",
];

/// The words of a text: small letters, no accents, no fillers; numbers are left out.
pub(super) fn words(text: &str) -> Vec<String> {
    let folded: String = text.chars().flat_map(char::to_lowercase).map(fold).collect();
    folded
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !word.bytes().all(|b| b.is_ascii_digit()) && !FILLERS.contains(word))
        .map(str::to_owned)
        .collect()
}

fn fold(c: char) -> char {
    match c {
        '\u{e0}'..='\u{e5}' => 'a',
        '\u{e7}' => 'c',
        '\u{e8}'..='\u{eb}' => 'e',
        '\u{ec}'..='\u{ef}' => 'i',
        '\u{f1}' => 'n',
        '\u{f2}'..='\u{f6}' => 'o',
        '\u{f9}'..='\u{fc}' => 'u',
        other => other,
    }
}

/// A word without the endings of number, gender and common verb forms. Rough on purpose: both sides are cut alike.
pub(super) fn stem(word: &str) -> String {
    const MANY: &[(&str, &str)] =
        &[("oes", "ao"), ("aes", "ao"), ("ais", "al"), ("eis", "el"), ("ens", "em"), ("ies", "y"), ("ces", "z")];
    if word.len() < 4 {
        return word.to_owned();
    }
    let one = MANY
        .iter()
        .find_map(|(many, one)| {
            word.strip_suffix(many).filter(|rest| rest.len() >= 2).map(|rest| format!("{rest}{one}"))
        })
        .or_else(|| word.strip_suffix('s').filter(|rest| !rest.ends_with(['s', 'u', 'i'])).map(str::to_owned))
        .unwrap_or_else(|| word.to_owned());
    let cut = |ending: &str, least: usize| one.strip_suffix(ending).filter(|rest| rest.len() >= least);
    let short = cut("ing", 3)
        .or_else(|| cut("ed", 4))
        .or_else(|| cut("ar", 3))
        .or_else(|| cut("er", 3))
        .or_else(|| cut("ir", 3))
        .or_else(|| cut("a", 3))
        .or_else(|| cut("e", 3))
        .or_else(|| cut("o", 3))
        .unwrap_or(&one);
    short.to_owned()
}

/// Whether one of two stems begins with the other, at least four letters long, and goes on for three letters at most.
pub(super) fn akin(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    short.len() >= 4 && long.len() - short.len() <= 3 && long.starts_with(short)
}
