//! What channels answer in the place of a bill.

use serde::Deserialize;

use crate::error::{BillError, NoStatement};

/// Longest code that is repeated in a message, in characters.
const MAX_CODE_CHARS: usize = 64;

#[derive(Deserialize)]
struct Refusal {
    code: serde_json::Value,
}

/// WeChat Pay: JSON of its third interface (`NO_STATEMENT_EXIST`), XML of its second (`No Bill Exist`).
pub(crate) fn wechat(document: &[u8]) -> Option<BillError> {
    let text = String::from_utf8_lossy(document);
    let text = text.trim().trim_start_matches('\u{feff}');
    if text.starts_with('<') {
        let code = element(text, "return_msg").or_else(|| element(text, "err_code"))?;
        return Some(match code.to_ascii_lowercase().as_str() {
            "no bill exist" => nothing(NoStatement::NothingHappened, code),
            "bill creating" => nothing(NoStatement::NotReady, code),
            _ => refused(code),
        });
    }
    let code = code_of(&serde_json::from_str::<Refusal>(text).ok()?.code)?;
    Some(match code.as_str() {
        "NO_STATEMENT_EXIST" => nothing(NoStatement::NothingHappened, &code),
        "STATEMENT_CREATING" => nothing(NoStatement::NotReady, &code),
        _ => refused(&code),
    })
}

/// Alipay: an envelope named after the call, with a `sub_code` (`isp.bill_not_exist`).
pub(crate) fn alipay(document: &[u8]) -> Option<BillError> {
    let answer: serde_json::Value = serde_json::from_slice(document).ok()?;
    let inner = answer.as_object()?.values().chain([&answer]).find_map(|value| value.get("sub_code"))?;
    let code = code_of(inner)?;
    Some(match code.to_ascii_lowercase().as_str() {
        "isp.bill_not_exist" => nothing(NoStatement::NothingHappened, &code),
        _ => refused(&code),
    })
}

fn nothing(meaning: NoStatement, code: &str) -> BillError {
    BillError::NoStatement { meaning, code: printable(code) }
}

fn refused(code: &str) -> BillError {
    BillError::ChannelRefused { code: printable(code) }
}

fn code_of(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(code) => Some(code.clone()),
        serde_json::Value::Number(code) => Some(code.to_string()),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Array(_)
        | serde_json::Value::Object(_) => None,
    }
}

/// The text of the first such element, with or without CDATA around it.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (content, _) = rest.split_once(&format!("</{name}>"))?;
    let content = content.trim();
    let bare = content.strip_prefix("<![CDATA[").and_then(|rest| rest.strip_suffix("]]>"));
    Some(bare.unwrap_or(content).trim())
}

fn printable(code: &str) -> String {
    code.chars().filter(|c| !c.is_control()).take(MAX_CODE_CHARS).collect()
}
