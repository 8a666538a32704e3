//! Why an expression was refused.

use std::fmt;

/// Characters that are shown of what should not stand there.
const LONGEST: usize = 60;

/// Why an expression was refused, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The expression as it was given.
    pub expression: String,
    /// Character in the expression, counted from 1; one behind the last if something is missing there.
    pub column: usize,
    /// What may stand there.
    pub expected: String,
    /// What stands there; empty at the end.
    pub found: String,
    /// How to write what was probably meant.
    pub hint: Option<&'static str>,
}

impl ParseError {
    /// The error for a terminal: the expression, and below it a caret at the column with what was expected.
    pub fn with_caret(&self) -> impl fmt::Display + '_ {
        Caret(self)
    }

    fn write_cause(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found ", self.expected)?;
        match self.found.as_str() {
            "" => f.write_str("the end")?,
            " " => f.write_str("a blank")?,
            found if found.chars().count() > LONGEST => {
                let begin: String = found.chars().take(LONGEST).collect();
                write!(f, "'{}...'", begin.escape_debug())?;
            }
            found => write!(f, "'{}'", found.escape_debug())?,
        }
        match self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: ", self.column)?;
        self.write_cause(f)
    }
}

impl std::error::Error for ParseError {}

struct Caret<'a>(&'a ParseError);

impl fmt::Display for Caret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // a control character would move the caret, or worse, talk to the terminal
        for character in self.0.expression.chars() {
            write!(f, "{}", if character.is_control() { '?' } else { character })?;
        }
        write!(f, "\n{:>column$} ", "^", column = self.0.column)?;
        self.0.write_cause(f)
    }
}

#[cfg(test)]
mod tests {
    use crate::calendar::Calendar;

    #[test]
    fn the_caret_stands_below_the_column() {
        let error = Calendar::parse("*-*-* 03:60:00").unwrap_err();
        let shown = error.with_caret().to_string();
        assert_eq!(shown, "*-*-* 03:60:00\n         ^ expected a minute from 0 to 59, found '60'");
    }

    #[test]
    fn an_expression_cannot_talk_to_the_terminal() {
        let error = Calendar::parse("dai\x1b[31mly").unwrap_err();
        assert!(!error.with_caret().to_string().contains('\x1b'));
        assert!(!error.to_string().contains('\x1b'));
    }
}
