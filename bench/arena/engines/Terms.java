/** Terms in N-Triples syntax. */
final class Terms {
  /** A term: an IRI, the label of a blank node, or a literal. Only a literal has a language or a datatype, and not both. */
  record Term(Kind kind, String text, String language, String datatype) {}

  /** The kind of a term. */
  enum Kind {
    IRI,
    BLANK,
    LITERAL
  }

  /** Reads a term. */
  static Term read(String term) {
    switch (term.charAt(0)) {
      case '<':
        return new Term(Kind.IRI, term.substring(1, term.length() - 1), null, null);
      case '_':
        return new Term(Kind.BLANK, term.substring(2), null, null);
      default:
        int end = term.lastIndexOf('"');
        String text = unescaped(term.substring(1, end)), rest = term.substring(end + 1);
        String language = rest.startsWith("@") ? rest.substring(1) : null;
        String datatype = rest.startsWith("^^") ? rest.substring(3, rest.length() - 1) : null;
        return new Term(Kind.LITERAL, text, language, datatype);
    }
  }

  /** An IRI as the value of an answer. */
  static String iri(String text) {
    return "<" + text + ">";
  }

  /** A literal as the value of an answer, which has neither language nor datatype. */
  static String literal(String text) {
    return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"';
  }

  private static String unescaped(String text) {
    if (text.indexOf('\\') < 0) {
      return text;
    }
    StringBuilder found = new StringBuilder();
    for (int i = 0; i < text.length(); i++) {
      char next = text.charAt(i);
      if (next != '\\') {
        found.append(next);
        continue;
      }
      char escaped = text.charAt(++i);
      int digits = escaped == 'u' ? 4 : escaped == 'U' ? 8 : 0;
      if (digits > 0) {
        found.appendCodePoint(Integer.parseInt(text.substring(i + 1, i + 1 + digits), 16));
        i += digits;
      } else {
        int place = "tbnrf".indexOf(escaped);
        found.append(place < 0 ? escaped : "\t\b\n\r\f".charAt(place));
      }
    }
    return found.toString();
  }

  private Terms() {}
}
