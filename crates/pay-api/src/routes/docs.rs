//! `GET /openapi.json` and `GET /docs`: the document for machines, and a page of it for people that needs nothing from
//! elsewhere: no script, no style sheet, no network.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::http::header;
use axum::response::{Html, IntoResponse};
use serde_json::Value;

use super::openapi::openapi;
use crate::problem::Code;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    serde_json::to_value(openapi()).expect("the document is made of strings, numbers and lists")
});
static JSON: LazyLock<String> = LazyLock::new(|| DOCUMENT.to_string());
static PAGE: LazyLock<String> = LazyLock::new(|| render(&DOCUMENT));

/// This document
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "documentation",
    operation_id = "openapiJson",
    responses((status = 200, description = "OpenAPI 3.1", body = Object, content_type = "application/json")),
)]
pub(super) async fn openapi_json() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], JSON.as_str())
}

/// This document as a page
#[utoipa::path(
    get,
    path = "/docs",
    tag = "documentation",
    operation_id = "docs",
    responses((status = 200, description = "HTML", body = String, content_type = "text/html")),
)]
pub(super) async fn docs() -> impl IntoResponse {
    let only_what_is_here = "default-src 'none'; style-src 'unsafe-inline'";
    ([(header::CONTENT_SECURITY_POLICY, only_what_is_here)], Html(PAGE.as_str()))
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#1c1c1c}code,pre{font:14px/1.4 ui-monospace,monospace;background:#f4f4f2}pre{padding:.8rem;overflow-x:auto}\
table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #ddd;padding:.3rem .6rem;text-align:left;\
vertical-align:top}details{border:1px solid #ddd;border-radius:.4rem;padding:.5rem 1rem;margin:.6rem 0}\
summary{cursor:pointer}.m{display:inline-block;min-width:3.5rem;font-weight:700}:target{background:#fff3c4}";

fn render(document: &Value) -> String {
    let mut page = String::with_capacity(64 * 1024);
    let title = text(&document["info"]["title"]);
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><style>{STYLE}</style></head><body>\
         <h1>{title} <small>{}</small></h1>{}<p><a href=\"/openapi.json\">openapi.json</a></p>",
        text(&document["info"]["version"]),
        paragraphs(&document["info"]["description"]),
    );
    for tag in items(&document["tags"]) {
        let _ = write!(page, "<h2>{}</h2><p>{}</p>", text(&tag["name"]), text(&tag["description"]));
        for (path, methods) in entries(&document["paths"]) {
            for (method, operation) in entries(methods) {
                if items(&operation["tags"]).first() == Some(&&tag["name"]) {
                    render_operation(&mut page, path, method, operation);
                }
            }
        }
    }
    page.push_str("<h2>Schemas</h2>");
    for (name, schema) in entries(&document["components"]["schemas"]) {
        let _ = write!(
            page,
            "<details id=\"schema-{0}\"><summary><code>{0}</code> {1}</summary>",
            escape(name),
            text(&schema["description"])
        );
        let properties: Vec<_> = entries(&schema["properties"]).collect();
        if properties.is_empty() {
            let _ = write!(page, "<pre>{}</pre>", escape(&format!("{schema:#}")));
        } else {
            page.push_str("<table>");
            for (field, property) in properties {
                let _ = write!(
                    page,
                    "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
                    escape(field),
                    type_of(property),
                    text(&property["description"])
                );
            }
            page.push_str("</table>");
        }
        page.push_str("</details>");
    }
    render_codes(&mut page);
    page.push_str("</body></html>");
    page
}

fn render_operation(page: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = write!(
        page,
        "<details><summary><span class=\"m\">{}</span><code>{}</code> {}</summary>{}",
        escape(&method.to_uppercase()),
        escape(path),
        text(&operation["summary"]),
        paragraphs(&operation["description"]),
    );
    let parameters = items(&operation["parameters"]);
    if !parameters.is_empty() {
        page.push_str("<table><tr><th>Parameter</th><th>In</th><th></th></tr>");
        for parameter in parameters {
            let must = if parameter["required"] == true { " (required)" } else { "" };
            let _ = write!(
                page,
                "<tr><td><code>{}</code></td><td>{}{must}</td><td>{}</td></tr>",
                text(&parameter["name"]),
                text(&parameter["in"]),
                text(&parameter["description"])
            );
        }
        page.push_str("</table>");
    }
    for (_, content) in entries(&operation["requestBody"]["content"]) {
        let _ = write!(page, "<p>Body: {}</p>", type_of(&content["schema"]));
    }
    page.push_str("<table><tr><th>Status</th><th></th><th>Body</th></tr>");
    for (status, response) in entries(&operation["responses"]) {
        let body: Vec<String> =
            entries(&response["content"]).map(|(_, content)| type_of(&content["schema"])).collect();
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(status),
            text(&response["description"]),
            body.join(", ")
        );
    }
    page.push_str("</table></details>");
}

fn render_codes(page: &mut String) {
    page.push_str(
        "<h2>Problem codes</h2><table><tr><th>Code</th><th>Status</th><th>Retryable</th><th>Meaning</th></tr>",
    );
    for code in Code::ALL {
        let meaning = code.meaning();
        let _ = write!(
            page,
            "<tr id=\"{0}\"><td><code>{0}</code></td><td>{1}</td><td>{2}</td><td>{3}</td></tr>",
            code.as_str(),
            meaning.status.as_u16(),
            if meaning.retryable { "yes" } else { "no" },
            escape(meaning.title),
        );
    }
    page.push_str("</table>");
}

/// A schema in a few words, with a link where it has a name.
fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("<a href=\"#schema-{0}\"><code>{0}</code></a>", escape(name));
    }
    for choice in ["oneOf", "anyOf", "allOf"] {
        let options: Vec<String> = items(&schema[choice]).into_iter().map(type_of).collect();
        if !options.is_empty() {
            return options.join(" or ");
        }
    }
    let of_items =
        if schema["items"].is_null() { String::new() } else { format!(" of {}", type_of(&schema["items"])) };
    match &schema["type"] {
        Value::String(name) => format!("{}{of_items}", escape(name)),
        Value::Array(names) => names.iter().map(text).collect::<Vec<_>>().join(" or ") + &of_items,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn items(value: &Value) -> Vec<&Value> {
    value.as_array().map(|items| items.iter().collect()).unwrap_or_default()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn text(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default())
}

fn paragraphs(value: &Value) -> String {
    text(value)
        .split("\n\n")
        .filter(|part| !part.is_empty())
        .fold(String::new(), |page, part| page + "<p>" + part + "</p>")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_shows_everything() {
        assert!(!PAGE.contains("<script") && !PAGE.contains("http://") && !PAGE.contains("https://"));
        for (path, _) in entries(&DOCUMENT["paths"]) {
            assert!(PAGE.contains(&escape(path)), "{path}");
        }
        for code in Code::ALL {
            assert!(PAGE.contains(&format!("<tr id=\"{}\">", code.as_str())), "{}", code.as_str());
        }
        for (name, _) in entries(&DOCUMENT["components"]["schemas"]) {
            assert!(PAGE.contains(&format!("id=\"schema-{name}\"")), "{name}");
        }
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
