/** The clock of CQELS: its classes that ask for the time get that of the stream, because make arena-rivals replaces java.lang.System in them. */
public final class ClockOfTheStream {
  private static long nanoseconds;

  /** The time of the newest element; elements of one millisecond follow each other by nanoseconds, as CQELS needs distinct times. */
  public static long nanoTime() {
    return nanoseconds;
  }

  /** Sets the time. */
  static void set(long time) {
    nanoseconds = time;
  }

  private ClockOfTheStream() {}
}
