import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.util.List;
import java.util.Map;

/**
 * Esper: each table is an event type of object arrays, a static one a named window with all rows. The time is that of the rows (column t).
 *
 * <p>The file of the query is a module of EPL whose statement {@code answers} gives the answers.
 */
final class Esper implements Rows.Engine {
  private static int queries;

  private EPRuntime runtime;
  private EPEventService events;
  private long now = Long.MIN_VALUE;

  @Override
  public List<String> start(Map<String, Rows.Table> tables, String query, Rows.Answers answers) throws Exception {
    Configuration configuration = new Configuration();
    configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
    configuration.getRuntime().getThreading().setListenerDispatchPreserveOrder(false);
    configuration.getCompiler().getByteCode().setAllowSubscriber(false);
    runtime = EPRuntimeProvider.getRuntime("query " + queries++, configuration);
    StringBuilder module = new StringBuilder();
    for (Rows.Table table : tables.values()) {
      module.append(schema(table));
    }
    EPCompiled compiled = EPCompilerProvider.getCompiler().compile(module + query, new CompilerArguments(configuration));
    EPDeployment deployment = runtime.getDeploymentService().deploy(compiled);
    EPStatement statement = runtime.getDeploymentService().getStatement(deployment.getDeploymentId(), "answers");
    String[] names = statement.getEventType().getPropertyNames();
    events = runtime.getEventService();
    for (Rows.Table table : tables.values()) {
      for (Object[] row : table.staticRows()) {
        events.sendEventObjectArray(row, table.name() + "_row");
      }
    }
    statement.addListener((found, removed, source, of) -> write(found, names, answers));
    return List.of(names);
  }

  private static String schema(Rows.Table table) {
    StringBuilder columns = new StringBuilder();
    for (int i = 0; i < table.columns().size(); i++) {
      String type = switch (table.types().get(i)) {
        case TEXT -> "string";
        case INTEGER -> "long";
        case DOUBLE -> "double";
      };
      columns.append(i > 0 ? ", " : "").append(table.columns().get(i)).append(' ').append(type);
    }
    String name = table.isStatic() ? table.name() + "_row" : table.name();
    String schema = "@public @buseventtype create objectarray schema " + name + "(" + columns + ");\n";
    return table.isStatic()
        ? schema + "create window " + table.name() + "#keepall as " + name + ";\ninsert into " + table.name() + " select * from " + name + ";\n"
        : schema;
  }

  private static void write(EventBean[] found, String[] names, Rows.Answers answers) {
    Object[] values = new Object[names.length];
    try {
      for (EventBean answer : found == null ? new EventBean[0] : found) {
        for (int i = 0; i < names.length; i++) {
          values[i] = answer.get(names[i]);
        }
        answers.add(values);
      }
    } catch (java.io.IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }

  @Override
  public void row(Rows.Table table, Object[] values) {
    long time = (Long) values[table.columns().indexOf("t")];
    if (time != now) {
      now = time;
      events.advanceTime(time);
    }
    events.sendEventObjectArray(values, table.name());
  }

  @Override
  public void end(long time) {}

  @Override
  public void stop() {
    runtime.destroy();
  }

  public static void main(String[] arguments) throws Exception {
    Rows.serve(Esper::new);
  }
}
