import com.espertech.esper.client.EPServiceProviderManager;
import com.hp.hpl.jena.datatypes.TypeMapper;
import com.hp.hpl.jena.graph.Node;
import com.hp.hpl.jena.rdf.model.AnonId;
import com.hp.hpl.jena.sparql.core.Var;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.deri.cqels.engine.ContinuousSelect;
import org.deri.cqels.engine.ExecContext;
import org.deri.cqels.engine.IndexedTripleRouter;
import org.deri.cqels.engine.OpRouter;
import org.deri.cqels.engine.RDFStream;
import org.deri.cqels.engine.Window;
import org.deri.cqels.lang.cqels.ParserCQELS;

/**
 * CQELS 1.0, whose clock is that of the stream. It answers a triple before it takes the next one.
 *
 * <p>It purges a window when the window gets a triple; here all windows are purged when the time moves on, so that none has expired triples.
 */
final class Cqels implements Rows.Engine {
  private static final long NANOSECONDS = 1_000_000;

  private final Map<String, RDFStream> streams = new HashMap<>();
  private final List<Window> windows = new ArrayList<>();
  private ExecContext context;
  private long now = Long.MIN_VALUE, clock;

  @Override
  public List<String> start(Map<String, Rows.Table> tables, String query, Rows.Answers answers) throws Exception {
    context = new ExecContext(Files.createTempDirectory(Path.of("").toAbsolutePath(), "cqels").toString(), true);
    for (Object[] file : tables.get("files").staticRows()) {
      String path = Path.of((String) file[1]).toUri().toString();
      if (file[0] == null) {
        context.loadDefaultDataset(path);
      } else {
        context.loadDataset((String) file[0], path);
      }
    }
    com.hp.hpl.jena.query.Query parsed = new com.hp.hpl.jena.query.Query();
    new ParserCQELS().parse(parsed, query);
    List<Var> variables = parsed.getProjectVars();
    ContinuousSelect select = context.policy().registerSelectQuery(parsed);
    for (int id = select.getId(); id > 0 && context.router(id) != null; id--) {
      if (context.router(id) instanceof IndexedTripleRouter router) {
        windows.add(router.getWindow());
      }
    }
    select.register(
        mapping -> {
          Object[] values = new Object[variables.size() + 1];
          values[0] = now;
          for (int i = 1; i < values.length; i++) {
            values[i] = text(context.engine().decode(mapping.get(variables.get(i - 1))));
          }
          try {
            answers.add(values);
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        });
    List<String> names = new ArrayList<>(List.of("time"));
    variables.forEach(variable -> names.add(variable.getName()));
    return names;
  }

  @Override
  public void row(Rows.Table table, Object[] values) {
    long time = (Long) values[5];
    if (time != now) {
      now = time;
      ClockOfTheStream.set((now + 1) * NANOSECONDS); // what is as old as a window is long is expired
      windows.forEach(Window::purge);
      clock = now * NANOSECONDS;
    }
    ClockOfTheStream.set(clock++);
    streams.computeIfAbsent((String) values[0], Stream::new).stream(node(values[2]), node(values[3]), node(values[4]));
  }

  @Override
  public void end(long time) {}

  @Override
  public void stop() {
    EPServiceProviderManager.getDefaultProvider().getEPAdministrator().destroyAllStatements();
  }

  private static Node node(Object value) {
    Terms.Term term = Terms.read((String) value);
    return switch (term.kind()) {
      case IRI -> Node.createURI(term.text());
      case BLANK -> Node.createAnon(AnonId.create(term.text()));
      case LITERAL -> Node.createLiteral(
          term.text(), term.language(), term.datatype() == null ? null : TypeMapper.getInstance().getSafeTypeByName(term.datatype()));
    };
  }

  private static String text(Node node) {
    return node.isURI() ? Terms.iri(node.getURI()) : node.isLiteral() ? Terms.literal(node.getLiteralLexicalForm()) : "_:" + node.getBlankNodeLabel();
  }

  private final class Stream extends RDFStream {
    Stream(String iri) {
      super(context, iri);
    }

    @Override
    public void stop() {}
  }

  public static void main(String[] arguments) throws Exception {
    Rows.serve(Cqels::new);
  }
}
