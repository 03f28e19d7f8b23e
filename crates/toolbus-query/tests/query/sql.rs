//! SQL over rows of JSON and CSV.

use toolbus_query::Question;
use toolbus_query::question::{RowFormat, Sql};

use super::support::{answer, invalid};

fn sql(statement: &str) -> Question {
    Question::Sql(Sql { statement: statement.to_owned(), ..Sql::default() })
}

#[track_caller]
fn check(statement: &str, value: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(answer(&sql(statement), value.as_ref()).text, expected, "{statement}");
}

#[track_caller]
fn check_invalid(statement: &str, expected: &str) {
    let message = invalid(&sql(statement), b"{\"a\":1,\"b\":2}");
    assert_eq!(message, expected, "{statement}");
}

#[test]
fn rows_of_json_lines() {
    let value = r#"{"a":1,"b":"x"}
        {"a":2.5,"c":[1,{"d":2}]}
        {"b":null,"a":true}"#;
    check(
        "SELECT * FROM data",
        value,
        concat!(
            "[{\"a\":1,\"b\":\"x\",\"c\":null},\n",
            "{\"a\":2.5,\"b\":null,\"c\":\"[1,{\\\"d\\\":2}]\"},\n",
            "{\"a\":1,\"b\":null,\"c\":null}]\n"
        ),
    );
    check("SELECT c ->> '$[1].d' AS d FROM data WHERE c NOT NULL", value, "[{\"d\":2}]\n");
    check(
        "SELECT e.value FROM data, json_each(data.c) e",
        value,
        "[{\"value\":1},\n{\"value\":\"{\\\"d\\\":2}\"}]\n",
    );
}

#[test]
fn rows_of_an_array() {
    check("SELECT sum(a) AS s FROM data", "[{\"a\":1}, {\"a\":2}]", "[{\"s\":3}]\n");
    check(
        "SELECT * FROM data",
        "[1, \"x\"] 2",
        "[{\"value\":1},\n{\"value\":\"x\"},\n{\"value\":2}]\n",
    );
    check("SELECT count(*) AS n FROM data", "[{}, {}]", "[{\"n\":2}]\n");
    assert_eq!(invalid(&sql("SELECT 1"), b"[]"), "the value has no rows");
    assert_eq!(
        invalid(&sql("SELECT 1"), b"[{}"),
        "not JSON: it ends at byte 3, in the middle of an array"
    );
}

#[test]
fn integers_are_exact() {
    let value =
        r#"{"a":9007199254740993,"b":9223372036854775807,"c":92233720368547758070,"d":1.0}"#;
    check(
        "SELECT * FROM data",
        value,
        concat!(
            "[{\"a\":9007199254740993,\"b\":9223372036854775807,",
            "\"c\":\"92233720368547758070\",\"d\":1.0}]\n"
        ),
    );
}

#[test]
fn keys_become_columns() {
    let value = r#"{"Id":1,"id":2,"a\"b":3,"":4,"a\u0062":5,"Id":6}"#;
    let shown = answer(&sql("SELECT * FROM data"), value.as_bytes());
    let expected = "[{\"Id\":6,\"id_2\":2,\"a\\\"b\":3,\"column_4\":4,\"ab\":5}]\n";
    assert_eq!(shown.text, expected);
    assert_eq!(shown.notes, ["1 columns got a number behind their name"]);
}

#[test]
fn rows_of_csv() {
    let value = "id,zip,name,score\r\n1,01234,\"a \"\"b\"\",\nc\",1.5\r\n20,99999,,\r\n";
    check(
        "SELECT * FROM data",
        value,
        concat!(
            "[{\"id\":1,\"zip\":\"01234\",\"name\":\"a \\\"b\\\",\\nc\",\"score\":1.5},\n",
            "{\"id\":20,\"zip\":\"99999\",\"name\":\"\",\"score\":null}]\n"
        ),
    );
    check("SELECT max(id) AS m FROM data", value, "[{\"m\":20}]\n");
    check("SELECT b FROM data", "\u{FEFF}a;b\n1;2\n", "[{\"b\":2}]\n");
    check("SELECT b FROM data", "a\tb\n1\t2\n", "[{\"b\":2}]\n");
    assert_eq!(invalid(&sql("SELECT 1"), b""), "the value has no rows");
    check("SELECT count(*) AS n FROM data", "a,b\n", "[{\"n\":0}]\n");
}

#[test]
fn ragged_rows_of_csv() {
    let shown = answer(&sql("SELECT * FROM data"), b"a,b\n1\n1,2,3\n");
    assert_eq!(
        shown.text,
        "[{\"a\":1,\"b\":null,\"column_3\":null},\n{\"a\":1,\"b\":2,\"column_3\":\"3\"}]\n"
    );
    assert_eq!(shown.notes, ["1 rows have less than 2 cells", "1 rows have more than 2 cells"]);
}

#[test]
fn rows_as_csv() {
    let question = Question::Sql(Sql {
        statement: "SELECT a, b, b FROM data".to_owned(),
        format: RowFormat::Csv,
        source: None,
    });
    let shown = answer(&question, br#"{"a":1,"b":"x,\"y\""} {"a":2.0}"#);
    assert_eq!(shown.text, "a,b,b:2\n1,\"x,\"\"y\"\"\",\"x,\"\"y\"\"\"\n2.0,,\n");
}

#[test]
fn statements_only_read() {
    let words = "a statement begins with one of SELECT, WITH, EXPLAIN";
    check_invalid("DELETE FROM data", words);
    check_invalid("/* SELECT */ -- x\n PRAGMA query_only = 0", words);
    check_invalid("ATTACH 'x' AS y", words);
    check_invalid("", words);
    check_invalid("SELECT 1; SELECT 2", "there is more than one statement");
    let denied = "the statement: not authorized; statements may only read";
    check_invalid("WITH x AS (SELECT 1) DELETE FROM data", denied);
    check_invalid("EXPLAIN DROP TABLE data", denied);
    check_invalid("SELECT * FROM pragma_query_only", denied);
    let message = invalid(&sql("SELECT load_extension('x')"), b"1");
    assert!(message.contains("not authorized"), "{message}");
}

#[test]
fn statements_are_told_where_they_are_wrong() {
    check_invalid("SELECT a FRM data", "the statement, character 14: near \"data\": syntax error");
    check_invalid(
        "SELECT c FROM data",
        "the statement, character 8: no such column: c; the table data has the columns a, b",
    );
    check_invalid(
        "SELECT a FROM date",
        "the statement: no such table: date; the table data has the columns a, b",
    );
}

#[test]
fn columns_are_limited() {
    let header =
        |count: usize| (0..count).map(|at| format!("c{at}")).collect::<Vec<_>>().join(",") + "\n";
    check("SELECT count(*) AS n FROM data", header(2_000), "[{\"n\":0}]\n");
    let message = invalid(&sql("SELECT 1"), header(2_001).as_bytes());
    assert_eq!(message, "the value has more than 2000 columns");

    let growing: String = (0..2_001).map(|at| format!("{{\"c{at}\":1}}\n")).collect();
    let message = invalid(&sql("SELECT 1"), growing.as_bytes());
    assert_eq!(message, "the value has more than 2000 columns");
}

#[test]
fn rows_that_do_not_fit_are_more() {
    let value: String = (0..10_000).map(|at| format!("{{\"a\":{at}}}\n")).collect();
    let shown = answer(&sql("SELECT a FROM data"), value.as_bytes());
    let skip = shown.more.expect("there is more").skip.expect("a number");
    assert!(shown.text.len() <= 16 << 10, "{}", shown.text.len());
    assert!(shown.text.ends_with(&format!("{{\"a\":{}}}]\n", skip - 1)), "{}", shown.text);
}
