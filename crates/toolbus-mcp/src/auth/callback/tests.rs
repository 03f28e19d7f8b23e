//! Requests that are waited for, requests that are not, and lines of a terminal.

use tokio::io::AsyncReadExt as _;

use super::*;

async fn ask(callback: &Callback, request: &str) -> String {
    let mut stream = TcpStream::connect(callback.address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn only_a_request_with_the_state_is_the_answer() {
    let callback = Callback::listen(None).await.expect("a port");
    let silent = TcpStream::connect(callback.address).await.expect("a connection");
    let asking = async {
        for request in [
            "GET /callback?code=evil&state=other HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /callback HTTP/1.1\r\n\r\n",
            "GET /other?code=evil&state=s1 HTTP/1.1\r\n\r\n",
            "POST /callback?code=evil&state=s1 HTTP/1.1\r\n\r\n",
            "GET\r\n\r\n",
        ] {
            let answer = ask(&callback, request).await;
            assert!(answer.starts_with("HTTP/1.1 404"), "{request}: {answer}");
        }
        ask(&callback, "GET /callback?code=good&state=s1 HTTP/1.1\r\nHost: x\r\n\r\n").await
    };
    let (answer, page) = tokio::join!(callback.wait_for_answer("s1", tokio::io::empty()), asking);
    let expected = format!("{}?code=good&state=s1", callback.redirect_uri());
    assert_eq!(answer.expect("an answer").as_str(), expected);
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    drop(silent);
}

#[tokio::test]
async fn the_address_can_be_pasted() {
    let callback = Callback::listen(None).await.expect("a port");
    let long = "x".repeat(40_000);
    let pasted = format!(
        "what?\n{long}\nhttp://127.0.0.1:1/callback?code=evil&state=other\n  \
         http://127.0.0.1:1/callback?code=good&state=s1 \n"
    );
    let answer = callback.wait_for_answer("s1", pasted.as_bytes()).await.expect("an answer");
    assert_eq!(answer.query(), Some("code=good&state=s1"));
}

#[tokio::test]
async fn a_refusal_is_told_without_control_characters() {
    let callback = Callback::listen(None).await.expect("a port");
    let pasted = b"http://x/?state=s1&error=access_denied&error_description=no%1b%5B31m%0Away\n";
    let error = callback.wait_for_answer("s1", &pasted[..]).await.expect_err("a refusal");
    assert_eq!(error.to_string(), "the login was refused: access_denied: no[31mway");
}
