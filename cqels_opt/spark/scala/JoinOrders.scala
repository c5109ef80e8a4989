package org.apache.spark.sql.cqels

import scala.collection.mutable

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}

/** The rows of joins of relations. Those of the micro-batch with relations that it is joined with directly follow from its sampled rows, so
  * correlated keys are no error; other relations have their average rows per key.
  */
class JoinSizes(joins: MicroBatchJoins, counts: Map[JoinKey, KeyCounts], sample: SampledRows) {
  private val perRow: Map[Int, Array[Double]] = joins.others.flatMap { relation =>
    val keys = joins.keysBetween(relation, Set(joins.stream))
    val perKey = keys.map(key => sample.of(key.otherKey).map(counts(key)(_)))
    perKey.reduceOption((one, other) => one.lazyZip(other).map(math.min)).map(relation -> _)
  }.toMap

  /** The rows of each relation that can be joined at all. */
  val rows: IndexedSeq[Double] = joins.relations.indices.map { relation =>
    if (relation == joins.stream) sample.weights.sum
    else joins.keys.filter(_.relation == relation).map(counts(_).rows.toDouble).minOption.getOrElse(Double.PositiveInfinity)
  }

  private val sizes = mutable.Map[Set[Int], Double]()

  /** The rows of the join of a set of relations. */
  def size(set: Set[Int]): Double = sizes.getOrElseUpdate(
    set,
    if (set(joins.stream)) {
      val (near, far) = (set - joins.stream).toSeq.partition(perRow.contains)
      val joined = sample.weights.indices.map(row => near.foldLeft(sample.weights(row))((product, relation) => product * perRow(relation)(row))).sum
      far.foldLeft(joined)((product, relation) => product * fanOut(relation, set))
    } else (set - set.min).toSeq.sorted.foldLeft((rows(set.min), Set(set.min))) { case ((product, done), relation) =>
      (product * fanOut(relation, done), done + relation)
    }._1
  )

  /** Whether the size of the join of a set of relations follows from the sampled rows alone: averages may be far too small. */
  def isSampled(set: Set[Int]): Boolean = (set - joins.stream).forall(perRow.contains)

  private def fanOut(relation: Int, set: Set[Int]): Double =
    joins.keysBetween(relation, set).map(counts(_).average).minOption.getOrElse(rows(relation))

  /** The bytes of the join of a set of relations: the default sizes of their types, and at most what Spark knows of one relation. */
  def bytes(set: Set[Int]): Double = {
    val estimated = size(set) * set.toSeq.map(relation => 8.0 + joins.relations(relation).output.map(_.dataType.defaultSize).sum).sum
    if (set.size == 1 && !set(joins.stream)) math.max(estimated, joins.relations(set.head).stats.sizeInBytes.toDouble) else estimated
  }
}

/** The costs of join orders in rows: each join costs the rows that it produces, and those of both sides unless one is broadcast.
  *
  * `perJoin` is what a join costs whatever its rows are. It is the same in all orders, so it decides which differences matter.
  */
class JoinOrders(joins: MicroBatchJoins, sizes: JoinSizes, mostBytes: Double, perJoin: Double) {
  private val fixed = perJoin * joins.others.size + sizes.rows.sum / 10 // joins, and scans

  /** The side that the next join broadcasts: true for the joined relations, false for the next one, None for neither. Joined relations whose
    * size is an estimate from averages are not: adaptive execution broadcasts them once it knows their bytes.
    */
  def broadcast(done: Set[Int], next: Int): Option[Boolean] = {
    val left = if (sizes.isSampled(done)) sizes.bytes(done) else Double.PositiveInfinity
    val right = sizes.bytes(Set(next))
    if (math.min(left, right) > mostBytes) None else Some(left < right)
  }

  private def step(done: Set[Int], next: Int): Double =
    sizes.size(done + next) + (if (broadcast(done, next).isDefined) 0.0 else sizes.size(done) + sizes.rows(next))

  /** The cheapest left-deep order that begins with the micro-batch, and its cost; None if the relations are not connected. */
  lazy val cheapest: Option[(Double, Seq[Int])] = best(_ < _)

  /** The cost of the most expensive order. */
  def mostExpensive: Double = best(_ > _).fold(Double.PositiveInfinity)(_._1)

  /** Dynamic programming over the sets of relations that have been joined. */
  private def best(better: (Double, Double) => Boolean): Option[(Double, Seq[Int])] = {
    val start = Map(Set(joins.stream) -> (fixed, Seq(joins.stream)))
    val last = joins.others.foldLeft(start) { (level, _) =>
      val longer = for {
        (done, (cost, order)) <- level.toSeq
        next <- joins.others if !done(next) && joins.keysBetween(next, done).nonEmpty
      } yield (done + next) -> (cost + step(done, next), order :+ next)
      longer.groupBy(_._1).map { case (done, found) => done -> found.map(_._2).reduce((a, b) => if (better(b._1, a._1)) b else a) }
    }
    last.headOption.map(_._2)
  }

  /** The cost of the joins as they are, with the broadcasts that Spark chooses from the bytes that it knows. */
  def cost(plan: LogicalPlan): Double = {
    def of(node: LogicalPlan): (Set[Int], Double) = joins.relations.indexWhere(_ eq node) match {
      case -1 if node.isInstanceOf[Join] =>
        val ((left, ofLeft), (right, ofRight)) = (of(node.children.head), of(node.children.last))
        val shuffled = node.children.forall(_.stats.sizeInBytes.toDouble > mostBytes)
        (left ++ right, ofLeft + ofRight + sizes.size(left ++ right) + (if (shuffled) sizes.size(left) + sizes.size(right) else 0.0))
      case -1 => of(node.children.head)
      case relation => (Set(relation), 0.0)
    }
    fixed + of(plan)._2
  }
}
