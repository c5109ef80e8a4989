package org.apache.spark.sql.cqels

import java.util.concurrent.{ExecutorService, Executors}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Column, Row}
import org.apache.spark.sql.catalyst.expressions.{BindReferences, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{DataFrame, Dataset, ExpressionUtils, SparkSession}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.functions._
import org.apache.spark.util.sketch.BloomFilter

/** The rows of a relation by the hash of a key: exact for the `frequent` keys, which are sorted, and the mean for the others, which are in a
  * Bloom filter.
  */
final class KeyCounts(val rows: Long, val distinct: Long, frequent: Array[Long], counts: Array[Long], others: Option[BloomFilter]) {
  private val mean = if (distinct > frequent.length) (rows - counts.sum).toDouble / (distinct - frequent.length) else 0.0

  /** The rows per key. */
  val average: Double = rows.toDouble / math.max(1L, distinct)

  def apply(hash: Long): Double = {
    val place = java.util.Arrays.binarySearch(frequent, hash)
    if (place >= 0) counts(place).toDouble else if (others.exists(_.mightContainLong(hash))) mean else 0.0
  }
}

/** Counts relations in the background, once per version: the size that Spark knows tells versions apart. */
object KeyCounts extends Logging {
  private val Frequent = 1 << 16
  private type Identity = (LogicalPlan, Expression, BigInt)
  private val known = new Recent[Identity, KeyCounts](64)

  /** The number of plans until a count that failed is tried again, as a file that was missing for a while is there again. */
  private val Pause = 64
  private val failed = new Recent[Identity, Int](64)
  private val counting = collection.mutable.Set[Identity]()
  private lazy val background: ExecutorService = Executors.newSingleThreadExecutor { task =>
    val thread = new Thread(task, "cqels counts")
    thread.setDaemon(true)
    thread
  }

  /** The counts of all keys but those of the micro-batch; None until there are all. */
  def of(session: SparkSession, joins: MicroBatchJoins, wait: Boolean): Option[Map[JoinKey, KeyCounts]] = {
    val keys = joins.keys.filter(_.relation != joins.stream)
    val tasks = keys.map(key => key -> start(session, joins, key))
    if (wait) background.submit((() => ()): Runnable).get()
    val found = synchronized(tasks.map { case (key, identity) => key -> Option(known.get(identity)) })
    if (found.forall(_._2.isDefined)) Some(found.map { case (key, counts) => key -> counts.get }.toMap) else None
  }

  private def start(session: SparkSession, joins: MicroBatchJoins, key: JoinKey): Identity = synchronized {
    val relation = joins.relations(key.relation)
    val bound = BindReferences.bindReference(key.key, relation.output).canonicalized
    val identity = (relation.canonicalized, bound, relation.stats.sizeInBytes)
    val pause = failed.getOrDefault(identity, 0)
    if (pause > 0) failed.put(identity, pause - 1)
    else if (!known.containsKey(identity) && counting.add(identity)) {
      background.submit((() => remember(session, relation, joins.name(key.relation), key.key, identity)): Runnable)
    }
    identity
  }

  private def remember(session: SparkSession, relation: LogicalPlan, name: String, key: Expression, identity: Identity): Unit = {
    session.sparkContext.setJobDescription(s"cqels: count the join keys of $name")
    try {
      val found = read(Dataset.ofRows(session, relation), ExpressionUtils.column(key))
      synchronized(known.put(identity, found))
    } catch {
      case NonFatal(error) =>
        logWarning(s"cqels: the join keys of $name could not be counted: $error")
        synchronized(failed.put(identity, Pause))
    } finally synchronized(counting -= identity)
  }

  private def read(rows: DataFrame, key: Column): KeyCounts = {
    val counted = rows.where(key.isNotNull).groupBy(xxhash64(key).as("key")).agg(count(lit(1)).as("rows")).persist()
    try {
      val all: Row = counted.agg(count(lit(1)), coalesce(sum("rows"), lit(0L))).head()
      val distinct = all.getLong(0)
      val frequent = counted.orderBy(col("rows").desc).limit(Frequent).collect().map(row => row.getLong(0) -> row.getLong(1)).sortBy(_._1)
      val others = if (distinct > frequent.length) Some(counted.stat.bloomFilter("key", distinct, 0.01)) else None
      new KeyCounts(all.getLong(1), distinct, frequent.map(_._1), frequent.map(_._2), others)
    } finally counted.unpersist()
  }
}

/** A sample of a micro-batch: the weight of each row, and the hashes of each of its join keys. */
final case class SampledRows(weights: Array[Double], keys: Seq[Expression], hashes: Seq[Array[Long]]) {
  def of(key: Expression): Array[Long] = hashes(keys.indexWhere(_.semanticEquals(key)))
}

object SampledRows {
  private val Whole = 4096

  /** Of each partition the first rows, of as many again every second, of twice as many every fourth, and so on. */
  def of(session: SparkSession, joins: MicroBatchJoins): SampledRows = {
    val keys = joins.keys.filter(_.relation == joins.stream).map(_.key).distinctBy(_.canonicalized)
    val batch = joins.relations(joins.stream).transform { case table: LogicalRelation => table.copy(isStreaming = false) }
    val place = expr(s"monotonically_increasing_id() & ${(1L << 33) - 1}").as("place")
    val hashes = keys.zipWithIndex.map { case (key, i) => xxhash64(ExpressionUtils.column(key)).as(s"h$i") }
    val weight = s"shiftleft(1L, CAST(greatest(0, floor(log2(place / $Whole)) + 1) AS INT))"
    val sampled = Dataset.ofRows(session, batch).select(place +: hashes: _*).where(s"place < $Whole OR place % $weight = 0")
    val rows = described(session, "cqels: sample the join keys of the micro-batch")(sampled.selectExpr(weight +: hashes.indices.map(i => s"h$i"): _*).collect())
    SampledRows(rows.map(_.getLong(0).toDouble), keys, keys.indices.map(i => rows.map(_.getLong(i + 1))))
  }

  private def described[T](session: SparkSession, text: String)(run: => T): T = {
    val before = session.sparkContext.getLocalProperty("spark.job.description")
    session.sparkContext.setJobDescription(text)
    try run
    finally session.sparkContext.setJobDescription(before)
  }
}
