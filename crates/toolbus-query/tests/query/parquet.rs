//! SQL over rows of Parquet.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use toolbus_query::question::Sql;
use toolbus_query::{Error, Question};

use super::support::{answer, ask_file, limits};

fn all_rows() -> Question {
    Question::Sql(Sql { statement: "SELECT * FROM data".to_owned(), ..Sql::default() })
}

/// Returns a file of two rows, of which the second has nothing but its number.
fn parquet(compression: Compression) -> Vec<u8> {
    let schema = "message m { required int64 id; optional binary name (UTF8); optional double x; }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    let some = Some([1_i16, 0]);

    let mut column = group.next_column().expect("it is written").expect("a column");
    let ids = [9_007_199_254_740_993, 2];
    column.typed::<Int64Type>().write_batch(&ids, None, None).expect("room");
    column.close().expect("it is whole");
    let mut column = group.next_column().expect("it is written").expect("a column");
    let names = [ByteArray::from("né")];
    let levels = some.as_ref().map(|levels| &levels[..]);
    column.typed::<ByteArrayType>().write_batch(&names, levels, None).expect("room");
    column.close().expect("it is whole");
    let mut column = group.next_column().expect("it is written").expect("a column");
    column.typed::<DoubleType>().write_batch(&[1.5], levels, None).expect("room");
    column.close().expect("it is whole");
    group.close().expect("it is whole");
    writer.close().expect("it is whole");
    bytes
}

#[test]
fn rows_of_parquet() {
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4_RAW] {
        let expected = concat!(
            "[{\"id\":9007199254740993,\"name\":\"né\",\"x\":1.5},\n",
            "{\"id\":2,\"name\":null,\"x\":null}]\n"
        );
        assert_eq!(answer(&all_rows(), &parquet(compression)).text, expected);
    }
}

#[test]
fn parquet_that_is_damaged() {
    let whole = parquet(Compression::SNAPPY);
    for end in (4..whole.len()).step_by(7) {
        let answer = ask_file(&all_rows(), &whole[..end], &limits());
        let message = answer.expect_err("it is cut").to_string();
        assert!(message.starts_with("the Parquet cannot be read"), "{message}");
    }
    for at in (4..whole.len()).step_by(5) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        // An answer or a refusal, and no other end.
        let answer = ask_file(&all_rows(), &damaged, &limits());
        let is_refused = matches!(answer, Err(Error::Invalid { .. } | Error::OutOfMemory));
        assert!(answer.is_ok() || is_refused, "{at}: {answer:?}");
    }
}
