package org.apache.spark.sql.cqels // most of Catalyst is visible below org.apache.spark.sql only

import java.lang.reflect.Field

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.expressions.{And, Attribute, AttributeSet, Expression, PredicateHelper}
import org.apache.spark.sql.catalyst.plans.{Inner, InnerLike}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.execution.datasources.LogicalRelation

/** `spark.sql.extensions=org.apache.spark.sql.cqels.CqelsExtension` */
class CqelsExtension extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectPreCBORule(session => new MicroBatchJoinOrder(session.asInstanceOf[SparkSession]))
}

object MicroBatchJoinOrder {
  val Enabled = "spark.cqels.enabled"

  /** Whether an optimizer waits until relations are counted: answers do not depend on it, but plans do. */
  val Wait = "spark.cqels.waitForCounts"

  /** What a join costs beside its rows, in rows: where rows cost little more, orders do not matter. */
  val JoinCost = "spark.cqels.rowsPerJoin"

  /** The order of the query is kept if the cheapest one saves less than this share of it. */
  val Tie = 0.1

  /** Plans have at most this many relations beside the micro-batch: the orders of all their subsets are priced. */
  val MostRelations = 10

  /** What Spark knows of the query whose result an RDD is: micro-batches have it, tables that were made of local rows do not. It is private. */
  private val origin: Option[Field] = Try(classOf[LogicalRDD].getDeclaredField("originStats")).toOption
  origin.foreach(_.setAccessible(true))
}

/** Orders the inner joins of a micro-batch with other relations by join sizes, which a sample of its rows and counts of the others give.
  *
  * The micro-batch is what Spark makes for `foreachBatch`, a `LogicalRDD` of the result of a query, or a streaming table of files.
  */
class MicroBatchJoinOrder(session: SparkSession) extends Rule[LogicalPlan] with PredicateHelper {
  import MicroBatchJoinOrder._

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (isOn(Enabled, "true")) visit(plan) else plan

  private def isOn(setting: String, default: String) = conf.getConfString(setting, default).toBoolean

  private def visit(plan: LogicalPlan): LogicalPlan = {
    val (relations, conditions) = joinsOf(plan)
    val stream = relations.indexWhere(isMicroBatch)
    if (relations.size == 1) plan.mapChildren(visit)
    else if (plan.collectLeaves().count(isOfMicroBatch) > 1) plan
    else if (stream < 0) below(plan)
    else if (relations.size > 1 + MostRelations || plan.containsPattern(PLAN_EXPRESSION)) plan
    else
      try ordered(plan, new MicroBatchJoins(relations.toIndexedSeq, conditions, stream))
      catch {
        case NonFatal(error) =>
          logWarning(s"cqels: the joins stay as they are, because they could not be planned: $error")
          plan
      }
  }

  /** A tree of joins with its relations visited, and not the smaller trees that it consists of. */
  private def below(plan: LogicalPlan): LogicalPlan = plan match {
    case join: Join if joinsOf(join)._1.size > 1 => join.mapChildren(below)
    case Project(_, _: Join) if joinsOf(plan)._1.size > 1 => plan.mapChildren(below)
    case relation => visit(relation)
  }

  /** The relations and conditions of the topmost tree of inner joins without hints; one relation if there is none. */
  private def joinsOf(plan: LogicalPlan): (Seq[LogicalPlan], Seq[Expression]) = plan match {
    case Join(left, right, _: InnerLike, Some(condition), JoinHint.NONE) if condition.deterministic =>
      val (ofLeft, ofRight) = (joinsOf(left), joinsOf(right))
      (ofLeft._1 ++ ofRight._1, ofLeft._2 ++ ofRight._2 ++ splitConjunctivePredicates(condition))
    case Project(columns, join: Join) if columns.forall(_.isInstanceOf[Attribute]) => joinsOf(join)
    case other => (Seq(other), Nil)
  }

  private def isMicroBatch(relation: LogicalPlan) = relation.collectLeaves() match {
    case Seq(leaf) => isOfMicroBatch(leaf)
    case _ => false
  }

  private def isOfMicroBatch(leaf: LogicalPlan) = leaf match {
    case rows: LogicalRDD => origin.forall(_.get(rows).asInstanceOf[Option[_]].isDefined)
    case table: LogicalRelation => table.isStreaming
    case _ => false
  }

  private def ordered(plan: LogicalPlan, joins: MicroBatchJoins): LogicalPlan = {
    val counts = KeyCounts.of(session, joins, isOn(Wait, "false"))
    if (counts.isEmpty || !Pauses.isDue(joins)) return plan
    val sizes = new JoinSizes(joins, counts.get, SampledRows.of(session, joins))
    val orders = new JoinOrders(joins, sizes, conf.autoBroadcastJoinThreshold.toDouble, conf.getConfString(JoinCost, "100000").toDouble)
    orders.cheapest match {
      case Some((cost, order)) if sizes.rows(joins.stream) > 0 =>
        val written = orders.cost(plan)
        val better = cost < (1 - Tie) * written
        Pauses.sampled(joins, if (better) Double.PositiveInfinity else orders.mostExpensive / cost)
        if (better) logInfo(s"cqels: joins in the order ${order.map(joins.name).mkString(" » ")}, for ${(100 * cost / written).round} % of the cost")
        if (better) rebuilt(plan, joins, order, orders) else plan
      case _ => plan
    }
  }

  /** The plan with its joins in another order. A side is broadcast if Spark would do so and knew its bytes. */
  private def rebuilt(plan: LogicalPlan, joins: MicroBatchJoins, order: Seq[Int], orders: JoinOrders): LogicalPlan = {
    val broadcast = Some(HintInfo(Some(BROADCAST)))
    val steps = order.tail.scanLeft(Set(order.head))(_ + _).zip(order.tail)
    val (result, _) = steps.foldLeft((joins.relations(order.head), joins.conditions)) { case ((left, conditions), (done, next)) =>
      val right = joins.relations(next)
      val (now, later) = conditions.partition(_.references.subsetOf(left.outputSet ++ right.outputSet))
      val hint = orders.broadcast(done, next) match {
        case Some(true) => JoinHint(broadcast, None)
        case Some(false) => JoinHint(None, broadcast)
        case None => JoinHint.NONE
      }
      val joined = Join(left, right, Inner, now.reduceOption(And(_, _)), hint)
      val needed = plan.outputSet ++ AttributeSet(later.flatMap(_.references))
      val kept = joined.output.filter(needed.contains)
      (if (kept.size < joined.output.size) Project(kept, joined) else joined, later)
    }
    if (result.output == plan.output) result else Project(plan.output, result)
  }
}
