import com.hp.hpl.jena.rdf.model.Model;
import com.hp.hpl.jena.rdf.model.ModelFactory;
import eu.larkc.csparql.cep.api.RdfQuadruple;
import eu.larkc.csparql.cep.api.RdfStream;
import eu.larkc.csparql.common.RDFTable;
import eu.larkc.csparql.common.RDFTuple;
import eu.larkc.csparql.common.streams.format.GenericObservable;
import eu.larkc.csparql.core.ResultFormatter;
import eu.larkc.csparql.engine.CsparqlEngineImpl;
import eu.larkc.csparql.engine.CsparqlQueryResultProxy;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * C-SPARQL 0.9. It answers a triple before it takes the next one.
 *
 * <p>All static data are one file, which a query names by {@code FROM <static>}; the engine reads it when the first triple comes.
 */
final class Csparql implements Rows.Engine {
  private static final Pattern STREAM = Pattern.compile("FROM STREAM <([^>]*)>");
  private static final Pattern VARIABLE = Pattern.compile("\\G\\s*\\?(\\w+)");

  private final CsparqlEngineImpl engine = new CsparqlEngineImpl();
  private final Map<String, RdfStream> streams = new HashMap<>();
  private CsparqlQueryResultProxy running;
  private long now;

  @Override
  public List<String> start(Map<String, Rows.Table> tables, String query, Rows.Answers answers) throws Exception {
    engine.initialize();
    for (Matcher stream = STREAM.matcher(query); stream.find(); ) {
      streams.put(stream.group(1), engine.registerStream(new RdfStream(stream.group(1))));
    }
    running = engine.registerQuery(query.replace("<static>", "<" + staticData(tables.get("files")) + ">"));
    running.addObserver(
        new ResultFormatter() {
          @Override
          public void update(GenericObservable<RDFTable> from, RDFTable found) {
            for (RDFTuple tuple : found) {
              write(tuple.toString().split("\t"), answers); // get(i) has no field beyond the third
            }
          }
        });
    List<String> names = new ArrayList<>(List.of("time"));
    int select = query.indexOf("SELECT") + "SELECT".length();
    for (Matcher variable = VARIABLE.matcher(query.substring(select)); variable.find(); ) {
      names.add(variable.group(1));
    }
    streams.values().forEach(stream -> stream.put(new RdfQuadruple("urn:nobody", "urn:nothing", "urn:nowhere", 0))); // reads the static data
    return names;
  }

  private void write(String[] fields, Rows.Answers answers) {
    Object[] values = new Object[fields.length + 1];
    values[0] = now;
    for (int i = 0; i < fields.length; i++) {
      String field = fields[i];
      values[i + 1] = field.startsWith("\"") ? Terms.literal(field.substring(1, field.lastIndexOf('"'))) : Terms.iri(field);
    }
    try {
      answers.add(values);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** A file of RDF/XML, which its version of Jena reads, with all static data. */
  private static String staticData(Rows.Table files) throws IOException {
    Model model = ModelFactory.createDefaultModel();
    for (Object[] file : files.staticRows()) {
      try (InputStream in = Files.newInputStream(Path.of((String) file[1]))) {
        model.read(in, null, "N-TRIPLE");
      }
    }
    Path path = Files.createTempFile(Path.of("").toAbsolutePath(), "static", ".rdf");
    try (OutputStream out = Files.newOutputStream(path)) {
      model.write(out, "RDF/XML");
    }
    return path.toUri().toString();
  }

  @Override
  public void row(Rows.Table table, Object[] values) {
    RdfStream stream = streams.get((String) values[0]);
    if (stream != null) {
      now = (Long) values[5];
      stream.put(new RdfQuadruple(bare(values[2]), bare(values[3]), bare(values[4]), now));
    }
  }

  /** A term as C-SPARQL gets it: an IRI without brackets, a literal as it is. */
  private static String bare(Object value) {
    String term = (String) value;
    return term.startsWith("<") ? term.substring(1, term.length() - 1) : term;
  }

  @Override
  public void end(long time) {}

  @Override
  public void stop() {
    engine.unregisterQuery(running.getId());
  }

  public static void main(String[] arguments) throws Exception {
    Rows.serve(Csparql::new);
  }
}
