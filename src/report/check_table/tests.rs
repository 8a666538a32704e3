use super::text::{elide, wrap};

#[test]
fn lines_break_at_blanks_and_long_words_where_the_line_ends() {
    assert_eq!(wrap("a ", "one two three four", 2, Some(15)), ["a one two three", "  four"]);
    assert_eq!(wrap("", "0123456789abcdef", 0, Some(12)), ["0123456789ab", "cdef"]);
    assert_eq!(wrap("a ", "one two three four", 2, None), ["a one two three four"]);
    // no room at all: nothing is wrapped
    assert_eq!(wrap("a ", "one two", 2, Some(5)), ["a one two"]);
}

#[test]
fn of_a_long_name_beginning_and_end_stay() {
    assert_eq!(elide("apiserver", 12), "apiserver");
    assert_eq!(elide("/etc/nginx/tls/site-a.pem", 14), "/etc..te-a.pem");
    assert_eq!(elide("käsekäsekäsekäse", 12).chars().count(), 12);
}
