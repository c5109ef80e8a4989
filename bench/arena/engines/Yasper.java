import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.commons.rdf.api.BlankNodeOrIRI;
import org.apache.commons.rdf.api.Graph;
import org.apache.commons.rdf.api.IRI;
import org.apache.commons.rdf.api.Literal;
import org.apache.commons.rdf.api.RDF;
import org.apache.commons.rdf.api.RDFTerm;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.streamreasoning.rsp4j.api.RDFUtils;
import org.streamreasoning.rsp4j.api.querying.ContinuousQuery;
import org.streamreasoning.rsp4j.api.stream.data.DataStream;
import org.streamreasoning.rsp4j.operatorapi.ContinuousProgram;
import org.streamreasoning.rsp4j.operatorapi.QueryTaskOperatorAPIImpl;
import org.streamreasoning.rsp4j.operatorapi.TaskOperatorAPIImpl;
import org.streamreasoning.rsp4j.operatorapi.containers.R2RContainer;
import org.streamreasoning.rsp4j.operatorapi.table.BindingStream;
import org.streamreasoning.rsp4j.yasper.examples.RDFStream;
import org.streamreasoning.rsp4j.yasper.querying.operators.r2r.BGP;
import org.streamreasoning.rsp4j.yasper.querying.operators.r2r.Binding;
import org.streamreasoning.rsp4j.api.operators.r2r.Var;
import org.streamreasoning.rsp4j.yasper.querying.operators.r2r.joins.HashJoinAlgorithm;
import org.streamreasoning.rsp4j.yasper.querying.syntax.TPQueryFactory;

/**
 * YASPER, the engine of RSP4J, with hash joins and without its log. All static data are one file, which a query names by {@code FROM <static>}.
 *
 * <p>Its windows are answered when they close, so the number of an element is its time in seconds: a window of one second holds one element.
 */
final class Yasper implements Rows.Engine {
  private static final RDF RDF = RDFUtils.getInstance();

  private final Map<String, DataStream<Graph>> streams = new HashMap<>();
  private final HashJoinAlgorithm hashJoin = new HashJoinAlgorithm();
  private DataStream<Graph> stream;
  private Graph element;
  private Object name;
  private long number, time, answered;

  @Override
  public List<String> start(Map<String, Rows.Table> tables, String text, Rows.Answers answers) throws Exception {
    Logger.getRootLogger().setLevel(Level.OFF);
    ContinuousQuery<Graph, Graph, Binding, Binding> query = TPQueryFactory.parse(text.replace("<static>", "<" + staticData(tables) + ">"));
    TaskOperatorAPIImpl<Graph, Graph, Binding, Binding> task = new QueryTaskOperatorAPIImpl.QueryTaskBuilder().fromQuery(query).build();
    for (R2RContainer<Graph, Binding> operator : task.getR2Rs()) {
      if (operator.getR2rOperator() instanceof BGP pattern) {
        pattern.setJoinAlgorithm(hashJoin);
      }
    }
    BindingStream out = new BindingStream("out");
    ContinuousProgram.ContinuousProgramBuilder<Graph, Graph, Binding, Binding> program = new ContinuousProgram.ContinuousProgramBuilder<>();
    for (DataStream<Graph> read : query.getWindowMap().values()) {
      program.in(streams.computeIfAbsent(read.getName(), RDFStream::new));
    }
    program.addTask(task).addJoinAlgorithm(hashJoin).out(out).build();
    List<Var> variables = query.getProjections();
    out.addConsumer((binding, at) -> write(binding, variables, answers));
    List<String> names = new ArrayList<>(List.of("time"));
    variables.forEach(variable -> names.add(variable.name().replace("?", "")));
    return names;
  }

  private void write(Binding binding, List<Var> variables, Rows.Answers answers) {
    Object[] values = new Object[variables.size() + 1];
    values[0] = answered;
    for (int i = 1; i < values.length; i++) {
      RDFTerm term = binding.value(variables.get(i - 1));
      values[i] = term instanceof Literal literal ? Terms.literal(literal.getLexicalForm()) : Terms.iri(((IRI) term).getIRIString());
    }
    try {
      answers.add(values);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static Path staticData(Map<String, Rows.Table> tables) throws IOException {
    Path path = Files.createTempFile(Path.of("").toAbsolutePath(), "static", ".nt");
    try (OutputStream out = Files.newOutputStream(path)) {
      for (Object[] file : tables.get("files").staticRows()) {
        Files.copy(Path.of((String) file[1]), out);
      }
    }
    return path;
  }

  @Override
  public void row(Rows.Table table, Object[] values) {
    DataStream<Graph> of = streams.get((String) values[0]);
    if (of == null) {
      return;
    }
    if (element != null && (of != stream || values[1] == null || !values[1].equals(name))) {
      put();
    }
    if (element == null) {
      element = RDFUtils.createGraph();
      stream = of;
      name = values[1];
      time = (Long) values[5];
    }
    element.add((BlankNodeOrIRI) term(values[2]), (IRI) term(values[3]), term(values[4]));
  }

  /** The next element, which closes the window of the one before it. */
  private void put() {
    stream.put(element, ++number * 1000);
    answered = time;
    element = null;
  }

  @Override
  public void end(long until) {
    if (element != null) {
      put();
    }
    if (number > 0) { // an element without triples closes the last window
      streams.values().forEach(each -> each.put(RDFUtils.createGraph(), (number + 1) * 1000));
      number++;
    }
  }

  private static RDFTerm term(Object value) {
    Terms.Term term = Terms.read((String) value);
    return switch (term.kind()) {
      case IRI -> RDF.createIRI(term.text());
      case BLANK -> RDF.createBlankNode(term.text());
      case LITERAL -> term.language() != null
          ? RDF.createLiteral(term.text(), term.language())
          : term.datatype() != null ? RDF.createLiteral(term.text(), RDF.createIRI(term.datatype())) : RDF.createLiteral(term.text());
    };
  }

  @Override
  public void stop() {
    streams.clear();
  }

  public static void main(String[] arguments) throws Exception {
    Rows.serve(Yasper::new);
  }
}
