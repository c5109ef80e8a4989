import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * The messages of cqels_opt/bench/contenders/typed_rows.py, for engines in Java: tables with static rows, then queries one after the other.
 *
 * <p>Standard output has messages only: what an engine prints goes to standard error.
 */
final class Rows {
  /** The type of a column. */
  enum Type {
    TEXT,
    INTEGER,
    DOUBLE
  }

  /** A table; the rows of a static one come before all others. */
  record Table(String name, boolean isStatic, List<String> columns, List<Type> types, List<Object[]> staticRows) {
    /** A line of values as a row. */
    Object[] row(String[] values) {
      Object[] found = new Object[columns.size()];
      for (int i = 0; i < found.length; i++) {
        String value = values[i + 1];
        found[i] =
            value.equals("\\N")
                ? null
                : switch (types.get(i)) {
                  case TEXT -> value;
                  case INTEGER -> Long.valueOf(value);
                  case DOUBLE -> Double.valueOf(value);
                };
      }
      return found;
    }
  }

  /** What an engine does with one query. */
  interface Engine {
    /** Starts the query; returns the names of the columns of its answers. */
    List<String> start(Map<String, Table> tables, String query, Answers answers) throws Exception;

    /** Takes a row of a stream. */
    void row(Table table, Object[] values) throws Exception;

    /** Returns when all answers to the rows so far are in {@code answers}; no later row has a time up to {@code time}. */
    void end(long time) throws Exception;

    /** Ends the query: nothing works any more. */
    void stop() throws Exception;
  }

  /** Writes answers. */
  static final class Answers {
    private final BufferedWriter out =
        new BufferedWriter(new OutputStreamWriter(new FileOutputStream(FileDescriptor.out), StandardCharsets.UTF_8), 1 << 16);

    /** An answer: the values of its columns. */
    synchronized void add(Object... values) throws IOException {
      for (int i = 0; i < values.length; i++) {
        if (i > 0) {
          out.write('\t');
        }
        out.write(values[i] == null ? "\\N" : values[i].toString());
      }
      out.write('\n');
    }

    private synchronized void message(String text) throws IOException {
      out.write(text);
      out.write('\n');
      out.flush();
    }
  }

  /** Serves the harness until it closes the input, each query by a new engine. */
  static void serve(Supplier<Engine> engines) throws Exception {
    System.setOut(System.err);
    Thread.currentThread().setUncaughtExceptionHandler((thread, error) -> {
      error.printStackTrace();
      Runtime.getRuntime().halt(1); // also where an engine has threads of its own
    });
    Engine engine = null;
    Answers answers = new Answers();
    Map<String, Table> tables = new LinkedHashMap<>();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split("\t", -1);
      switch (words[0]) {
        case "#table" -> {
          List<String> columns = new ArrayList<>();
          List<Type> types = new ArrayList<>();
          for (int i = 3; i < words.length; i++) {
            String[] column = words[i].split(" ");
            columns.add(column[0]);
            types.add(Type.valueOf(column[1].toUpperCase()));
          }
          tables.put(words[1], new Table(words[1], words[2].equals("static"), columns, types, new ArrayList<>()));
        }
        case "#start" -> {
          engine = engines.get();
          answers.message("#ready\t" + String.join("\t", engine.start(tables, Files.readString(Path.of(words[1])), answers)));
        }
        case "#stop" -> {
          engine.stop();
          answers.message("#stopped");
        }
        case "#end" -> {
          engine.end(Long.parseLong(words[2]));
          answers.message("#done\t" + words[1]);
        }
        default -> {
          Table table = tables.get(words[0]);
          if (table.isStatic()) {
            table.staticRows().add(table.row(words));
          } else {
            engine.row(table, table.row(words));
          }
        }
      }
    }
    System.exit(0);
  }

  private Rows() {}
}
