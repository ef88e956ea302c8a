// SPDX-License-Identifier: Apache-2.0
//! Parses and writes XML. Input is limited in size, depth and number of elements, and must not define entities, so
//! that it cannot grow while it is parsed (CVE-2003-1564, "billion laughs").
//!
//! Names are compared without their namespaces: clients use different prefixes, and no two elements of one parent
//! differ only in their namespace.

use std::fmt::Write as _;

use oxbus_model::caps::{ATOM_DEPTH_MAX, ATOM_ELEMENTS_MAX};
use quick_xml::XmlVersion;
use quick_xml::escape::{escape, resolve_predefined_entity};
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

use crate::http::error::HttpError;

/// An element with its contents.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
    pub(super) children: Vec<Self>,
    pub(super) text: String,
}

impl Element {
    /// Parses a document.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, HttpError> {
        let text = std::str::from_utf8(bytes).map_err(|error| malformed(&error))?;
        let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
        let mut open: Vec<Self> = Vec::new();
        let mut count = 0;
        let mut root = None;
        loop {
            match reader.read_event().map_err(|error| malformed(&error))? {
                Event::Start(start) => open.push(start_element(&start, open.len(), &mut count)?),
                Event::Empty(start) => {
                    let element = start_element(&start, open.len(), &mut count)?;
                    close_element(&mut open, &mut root, element)?;
                }
                Event::End(_) => {
                    let element = open.pop().ok_or_else(|| malformed(&"an end tag has no start tag"))?;
                    close_element(&mut open, &mut root, element)?;
                }
                Event::Text(text) => append_text(&mut open, &text.xml10_content())?,
                Event::CData(text) => append_text(&mut open, &text.xml10_content())?,
                Event::GeneralRef(reference) => append_text(&mut open, &resolve_reference(&reference)?)?,
                Event::DocType(_) => return Err(malformed(&"a document type is not allowed; remove it")),
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
                Event::Eof => break,
            }
        }
        if !open.is_empty() {
            return Err(malformed(&"it ends inside an element"));
        }
        root.ok_or_else(|| malformed(&"it has no element"))
    }

    /// The first child with this name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The trimmed text of a child, and `None` if it is absent or empty.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name)
            .map(|child| trim(&child.text))
            .filter(|text| !text.is_empty())
    }

    /// The value of the attribute `type`, without prefix.
    pub(super) fn kind(&self) -> Option<&str> {
        let (_, value) = self.attributes.iter().find(|(name, _)| name == "type")?;
        Some(value.rsplit_once(':').map_or(value.as_str(), |(_, kind)| kind))
    }
}

/// Trims XML white space, which is only these four characters.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

fn malformed(why: &dyn std::fmt::Display) -> HttpError {
    HttpError::bad_request(format!("the XML body cannot be read: {why}"))
}

fn start_element(start: &BytesStart<'_>, depth: usize, count: &mut usize) -> Result<Element, HttpError> {
    *count += 1;
    if depth >= ATOM_DEPTH_MAX || *count > ATOM_ELEMENTS_MAX {
        let why = format!("it may have {ATOM_ELEMENTS_MAX} elements, nested {ATOM_DEPTH_MAX} deep");
        return Err(malformed(&why));
    }
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| malformed(&error))?;
        let value = attribute
            .normalized_value(XmlVersion::Implicit1_0)
            .map_err(|error| malformed(&error))?;
        attributes.push((attribute.key.local_name().as_ref().to_owned(), value.into_owned()));
    }
    Ok(Element {
        name: start.local_name().as_ref().to_owned(),
        attributes,
        ..Element::default()
    })
}

fn close_element(open: &mut [Element], root: &mut Option<Element>, element: Element) -> Result<(), HttpError> {
    match open.last_mut() {
        Some(parent) => parent.children.push(element),
        None if root.is_none() => *root = Some(element),
        None => return Err(malformed(&"it has two root elements")),
    }
    Ok(())
}

fn append_text(open: &mut [Element], text: &str) -> Result<(), HttpError> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if trim(text).is_empty() => {}
        None => return Err(malformed(&"it has text outside the root element")),
    }
    Ok(())
}

fn resolve_reference(reference: &BytesRef<'_>) -> Result<String, HttpError> {
    if let Some(character) = reference.resolve_char_ref().map_err(|error| malformed(&error))? {
        return Ok(character.to_string());
    }
    let name: &str = reference;
    let text = resolve_predefined_entity(name);
    text.map(str::to_owned)
        .ok_or_else(|| malformed(&format!("it has an undefined entity: {name}")))
}

/// Writes elements one after the other.
#[derive(Default)]
pub(super) struct XmlWriter(String);

impl XmlWriter {
    /// Opens an element. Attributes are not escaped.
    pub(super) fn open(&mut self, name: &str, attributes: &str) {
        let space = if attributes.is_empty() { "" } else { " " };
        write!(self.0, "<{name}{space}{attributes}>").expect("writing to a string cannot fail");
    }

    pub(super) fn close(&mut self, name: &str) {
        write!(self.0, "</{name}>").expect("writing to a string cannot fail");
    }

    /// Writes an element with text.
    pub(super) fn text(&mut self, name: &str, text: impl std::fmt::Display) {
        self.text_with(name, "", text);
    }

    /// Like [`Self::text`], with attributes.
    pub(super) fn text_with(&mut self, name: &str, attributes: &str, text: impl std::fmt::Display) {
        self.open(name, attributes);
        // Parsers read an unescaped carriage return as a line end.
        self.0
            .push_str(&escape(replace_invalid(&text.to_string())).replace('\r', "&#13;"));
        self.close(name);
    }

    /// Like [`Self::text`], but only if there is a text.
    pub(super) fn text_if_some(&mut self, name: &str, text: Option<impl std::fmt::Display>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Replaces characters that XML does not allow even when escaped.
fn replace_invalid(text: &str) -> String {
    let is_allowed =
        |it: char| matches!(it, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    text.chars()
        .map(|it| if is_allowed(it) { it } else { '\u{fffd}' })
        .collect()
}

/// Escapes an attribute value.
pub(super) fn escape_attribute(text: &str) -> String {
    escape(replace_invalid(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use oxbus_model::caps::{ATOM_DEPTH_MAX, ATOM_ELEMENTS_MAX};
    use proptest::prelude::*;

    use super::{Element, XmlWriter};

    #[test]
    fn prefixes_are_ignored() {
        let text = br#"<?xml version="1.0"?><a:x xmlns:a="n"><!-- no --><a:y i:type="d:int" xmlns:i="i">1 &amp;&#65;<![CDATA[<]]></a:y><z/></a:x>"#;
        let root = Element::parse(text).expect("XML");
        assert_eq!(root.name, "x");
        assert_eq!(root.text_of("y"), Some("1 &A<"));
        assert_eq!(root.child("y").and_then(Element::kind), Some("int"));
        assert_eq!(root.text_of("z"), None);
    }

    #[test]
    fn billion_laughs_are_rejected_before_they_grow() {
        let attack = br#"<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;">]><entry>&lol2;</entry>"#;
        assert!(Element::parse(attack).is_err());
        assert!(Element::parse(b"<entry>&lol2;</entry>").is_err(), "an undefined entity");
        assert!(Element::parse(br#"<entry a="&lol2;"/>"#).is_err());
        let outside = br#"<!DOCTYPE x SYSTEM "file:///etc/passwd"><entry/>"#;
        assert!(Element::parse(outside).is_err());
    }

    #[test]
    fn depth_and_number_of_elements_are_limited() {
        let nested = |depth: usize| "<a>".repeat(depth) + &"</a>".repeat(depth);
        assert!(Element::parse(nested(ATOM_DEPTH_MAX).as_bytes()).is_ok());
        assert!(Element::parse(nested(ATOM_DEPTH_MAX + 1).as_bytes()).is_err());
        let many = |count: usize| format!("<a>{}</a>", "<b/>".repeat(count));
        assert!(Element::parse(many(ATOM_ELEMENTS_MAX - 1).as_bytes()).is_ok());
        assert!(Element::parse(many(ATOM_ELEMENTS_MAX).as_bytes()).is_err());
    }

    #[test]
    fn invalid_xml_is_rejected() {
        for text in [
            "",
            "a",
            "<a>",
            "<a></b>",
            "<a/><b/>",
            "</a>",
            "<a b='1' b='2'/>",
            "<a/>x",
            "{}",
            "<a>\u{0}",
        ] {
            let parsed = Element::parse(text.as_bytes());
            assert!(parsed.is_err() || text.ends_with('\u{0}'), "{text}");
        }
        assert!(Element::parse(&[b'<', 0xff, b'>']).is_err());
    }

    proptest! {
        #[test]
        fn parser_accepts_any_bytes_without_a_panic(bytes: Vec<u8>) {
            let _ = Element::parse(&bytes);
        }

        #[test]
        fn text_round_trips(text in "[\\t\\n\\r[^\\x00-\\x1f\\u{fffe}\\u{ffff}]]*") {
            let mut out = XmlWriter::default();
            out.text("a", &text);
            let root = Element::parse(out.finish().as_bytes()).expect("XML");
            prop_assert_eq!(root.text, text);
        }
    }
}
