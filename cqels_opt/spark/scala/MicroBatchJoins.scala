package org.apache.spark.sql.cqels

import org.apache.spark.sql.catalyst.expressions.{EqualTo, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.datasources.LogicalRelation

/** An equality of two relations, seen from one of them: `key` is an expression over `relation`, `otherKey` over `other`. */
final case class JoinKey(relation: Int, key: Expression, other: Int, otherKey: Expression)

/** The joins of a micro-batch, which is the relation `stream`. */
class MicroBatchJoins(val relations: IndexedSeq[LogicalPlan], val conditions: Seq[Expression], val stream: Int) {
  val others: Seq[Int] = relations.indices.filter(_ != stream)

  /** Each equality from both sides. */
  val keys: Seq[JoinKey] = for {
    case EqualTo(one, two) <- conditions
    (key, otherKey) <- Seq((one, two), (two, one))
    relation <- relationOf(key)
    other <- relationOf(otherKey)
    if relation != other
  } yield JoinKey(relation, key, other, otherKey)

  /** The keys of a relation that are equal to those of a set of relations. */
  def keysBetween(relation: Int, set: Set[Int]): Seq[JoinKey] = keys.filter(key => key.relation == relation && set(key.other))

  /** Equal for the same joins of another micro-batch. */
  lazy val shape: Seq[Any] =
    others.map(relations(_).canonicalized) ++ keys.map(key => (key.relation, key.other)) :+ relations(stream).output.map(_.dataType)

  def name(relation: Int): String = relations(relation).collectLeaves().head match {
    case table: LogicalRelation if table.catalogTable.isDefined => table.catalogTable.get.identifier.table
    case cached: InMemoryRelation => cached.cacheBuilder.tableName.getOrElse("cached relation")
    case leaf => if (relation == stream) "micro-batch" else leaf.nodeName
  }

  private def relationOf(key: Expression): Option[Int] = {
    val found = relations.indexWhere(relation => key.references.subsetOf(relation.outputSet))
    if (key.references.isEmpty || found < 0) None else Some(found)
  }
}

/** When the next micro-batch of the same joins is sampled: the less a wrong order can cost, the later. */
object Pauses {
  private final case class Pause(left: Int, interval: Int)
  private val Growth = 8
  private val Most = Seq(1.05 -> 64, 1.5 -> 8) // up to these ratios of the most expensive order to the cheapest one
  private val pauses = new Recent[Seq[Any], Pause](256)

  def isDue(joins: MicroBatchJoins): Boolean = synchronized {
    val pause = pauses.getOrDefault(joins.shape, Pause(0, 1))
    if (pause.left > 0) pauses.put(joins.shape, pause.copy(left = pause.left - 1))
    pause.left == 0
  }

  def sampled(joins: MicroBatchJoins, spread: Double): Unit = synchronized {
    val most = Most.collectFirst { case (ratio, longest) if spread <= ratio => longest }.getOrElse(1)
    val interval = math.min(most, pauses.getOrDefault(joins.shape, Pause(0, 1)).interval * Growth)
    pauses.put(joins.shape, Pause(interval - 1, interval))
  }
}

/** A map that keeps the entries that were used last. */
class Recent[K, V](most: Int) extends java.util.LinkedHashMap[K, V](16, 0.75f, true) {
  override def removeEldestEntry(eldest: java.util.Map.Entry[K, V]): Boolean = size > most
}
