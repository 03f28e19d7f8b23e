//! Models behind a scripted server, which speaks the APIs of OpenAI and Anthropic as they are
//! published, and behaves as badly as servers do.

mod anthropic;
mod chat;
mod failures;
mod litellm;
mod schemas;
mod secrets;
mod settings;
mod support;
mod text;
