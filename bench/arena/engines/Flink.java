import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/**
 * Apache Flink in this process: each table is a source whose watermark advances with the micro-batches, the query is SQL.
 *
 * <p>Tables have the event time {@code ts} beside their columns. A micro-batch has ended when its watermark reaches the sink: watermarks do
 * not overtake rows. That needs mini-batches of Flink off, which replace watermarks by the processing time.
 */
final class Flink implements Rows.Engine {
  private static final Map<String, LinkedBlockingQueue<Object>> INPUT = new ConcurrentHashMap<>();
  private static final LinkedBlockingQueue<Long> REACHED = new LinkedBlockingQueue<>();
  private static Rows.Answers found;

  private JobClient job;

  private static final Object END = new Object();

  private final Map<String, List<Row>> batch = new HashMap<>();

  @Override
  public List<String> start(Map<String, Rows.Table> tables, String query, Rows.Answers answers) throws Exception {
    found = answers;
    Configuration configuration = new Configuration();
    configuration.setString("pipeline.object-reuse", "true");
    configuration.setString("pipeline.auto-watermark-interval", "0");
    configuration.setString("execution.buffer-timeout.interval", "5ms");
    configuration.setString("parallelism.default", "1");
    boolean isWindowJoin = query.contains("window_start"); // which a MultiJoin does not keep
    configuration.setString("table.optimizer.multi-join.enabled", String.valueOf(!isWindowJoin));
    configuration.setString("table.optimizer.delta-join.strategy", "AUTO");
    configuration.setString("table.optimizer.join-reorder-enabled", "true");
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
    StreamTableEnvironment database = StreamTableEnvironment.create(environment);
    for (Rows.Table table : tables.values()) {
      INPUT.put(table.name(), new LinkedBlockingQueue<>());
      int time = table.columns().indexOf("t");
      DataStream<Row> rows =
          environment.addSource(new Source(table.name(), time), table.name()).returns(type(table)).name(table.name());
      if (table.isStatic()) {
        database.createTemporaryView(table.name(), database.fromDataStream(rows));
      } else {
        Schema schema =
            Schema.newBuilder().columnByMetadata("ts", DataTypes.TIMESTAMP_LTZ(3), "rowtime").watermark("ts", "SOURCE_WATERMARK()").build();
        database.createTemporaryView(table.name(), database.fromDataStream(rows, schema));
        batch.put(table.name(), new ArrayList<>());
      }
    }
    Table result = database.sqlQuery(query);
    database.toDataStream(result).transform("answers", Types.VOID, new Sink()).setParallelism(1);
    for (Rows.Table table : tables.values()) {
      if (table.isStatic()) {
        INPUT.get(table.name()).add(table.staticRows().stream().map(Row::of).toList());
        INPUT.get(table.name()).add(END);
      }
    }
    job = environment.executeAsync("arena");
    return result.getResolvedSchema().getColumnNames();
  }

  private static TypeInformation<Row> type(Rows.Table table) {
    TypeInformation<?>[] types =
        table.types().stream()
            .map(type -> switch (type) {
              case TEXT -> Types.STRING;
              case INTEGER -> Types.LONG;
              case DOUBLE -> Types.DOUBLE;
            })
            .toArray(TypeInformation<?>[]::new);
    return Types.ROW_NAMED(table.columns().toArray(String[]::new), types);
  }

  @Override
  public void row(Rows.Table table, Object[] values) {
    batch.get(table.name()).add(Row.of(values));
  }

  @Override
  public void end(long time) throws Exception {
    for (Map.Entry<String, List<Row>> rows : batch.entrySet()) {
      INPUT.get(rows.getKey()).add(rows.getValue());
      INPUT.get(rows.getKey()).add(time);
      rows.setValue(new ArrayList<>());
    }
    while (REACHED.take() < time) {}
  }

  @Override
  public void stop() throws Exception {
    CompletableFuture<?> ended = job.getJobExecutionResult();
    job.cancel();
    try {
      ended.get();
    } catch (ExecutionException error) {
      // canceled
    }
    INPUT.clear();
    REACHED.clear();
  }

  /** Rows and watermarks of a table, in order. */
  private static final class Source implements SourceFunction<Row> {
    private final String table;
    private final int time;

    Source(String table, int time) {
      this.table = table;
      this.time = time;
    }

    @Override
    @SuppressWarnings("unchecked")
    public void run(SourceContext<Row> context) throws Exception {
      LinkedBlockingQueue<Object> input = INPUT.get(table);
      for (Object next = input.take(); next != END; next = input.take()) {
        synchronized (context.getCheckpointLock()) {
          if (next instanceof Long watermark) {
            context.emitWatermark(new Watermark(watermark));
          } else {
            for (Row row : (List<Row>) next) {
              if (time < 0) {
                context.collect(row);
              } else {
                context.collectWithTimestamp(row, (Long) row.getField(time));
              }
            }
          }
        }
      }
    }

    @Override
    public void cancel() {}
  }

  /** Writes answers, and reports the watermarks that it has reached. */
  private static final class Sink extends AbstractStreamOperator<Void> implements OneInputStreamOperator<Row, Void> {
    @Override
    public void processElement(StreamRecord<Row> record) throws Exception {
      Row row = record.getValue();
      Object[] values = new Object[row.getArity()];
      for (int i = 0; i < values.length; i++) {
        values[i] = row.getField(i);
      }
      found.add(values);
    }

    @Override
    public void processWatermark(Watermark watermark) throws Exception {
      REACHED.add(watermark.getTimestamp());
      super.processWatermark(watermark);
    }
  }

  public static void main(String[] arguments) throws Exception {
    Rows.serve(Flink::new);
  }
}
