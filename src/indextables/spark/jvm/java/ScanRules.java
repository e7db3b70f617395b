package indextables.spark;

import java.lang.reflect.Field;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Loads of our format become Spark's own Parquet scan over the live splits, or private scans if they request more than
 * unchanged rows. The rules only act in enabled sessions.
 */
final class ScanRules {
    private static final Map PRUNED = Collections.synchronizedMap(new WeakHashMap());
    private static final Map REPLACED = Collections.synchronizedMap(new WeakHashMap());
    private static final Map ENABLED = Collections.synchronizedMap(new WeakHashMap());
    private static final Map OPENED = Collections.synchronizedMap(new WeakHashMap());

    /** Install the rule by which filters above native scans select splits. */
    static void pruneSplits(SparkSessionExtensions extensions) {
        if (PRUNED.put(extensions, Boolean.TRUE) != null) return;
        extensions.injectPreCBORule(new AbstractFunction1() {
            public Object apply(Object session) {
                return new PruneSplits();
            }
        });
    }

    /**
     * Install the rule that replaces the loads of a session. `open` takes a pickled data source, and returns a
     * `PrivateScan.Opened`.
     */
    static void replaceLoads(SparkSession session, SparkSessionExtensions extensions, String format, Function open) {
        ENABLED.put(session, Boolean.TRUE);
        if (REPLACED.put(extensions, Boolean.TRUE) != null) return;
        final String ours = format;
        final Function opening = open;
        extensions.injectOptimizerRule(new AbstractFunction1() {
            public Object apply(Object session) {
                return new ReplaceLoads((SparkSession) session, ours, opening);
            }
        });
        extensions.injectPreCBORule(new AbstractFunction1() {
            public Object apply(Object session) {
                return new SearchRules.CheckScores();
            }
        });
    }

    /** Replaces every load in a plan by its best scan. */
    static final class ReplaceLoads extends Rule {
        private final SparkSession session;
        private final String format;
        private final Function open;

        ReplaceLoads(SparkSession session, String format, Function open) {
            this.session = session;
            this.format = format;
            this.open = open;
        }

        public TreeNode apply(TreeNode plan) {
            if (!ENABLED.containsKey(session) || changesRows(plan)) return plan;
            if (!SearchRules.mayCall((LogicalPlan) plan)) return replaced((LogicalPlan) plan);
            // None of our rules analyses the plan inside of a command.
            LogicalPlan known = SearchColumns.applied(session, (LogicalPlan) plan);
            SearchColumns.check(known);
            LogicalPlan searched = new SearchRules(this).applied(known);
            return SearchScores.placed(replaced(searched));
        }

        /** The opened load of a node that no rule has replaced yet; null for other nodes. */
        PrivateScan.Opened opened(Object node) {
            PythonDataSourceV2 source = source(node);
            return source == null ? null : opened((DataSourceV2Relation) node, source);
        }

        private LogicalPlan replaced(LogicalPlan plan) {
            final ReplaceLoads rule = this;
            return (LogicalPlan) plan.transformDown(new AbstractPartialFunction() {
                public boolean isDefinedAt(Object node) {
                    return isShared(node) || rule.source(node) != null;
                }

                public Object applyOrElse(Object node, scala.Function1 otherwise) {
                    if (isShared(node)) {
                        DataSourceV2Relation scan = (DataSourceV2Relation) node;
                        return with(scan, ((PrivateScan) scan.table()).apart());
                    }
                    PythonDataSourceV2 source = rule.source(node);
                    return source == null ? otherwise.apply(node) : rule.replaced((DataSourceV2Relation) node, source);
                }
            });
        }

        /** Statements that our tables do not support: Spark reports them with the table's original name. */
        private static boolean changesRows(Object plan) {
            return plan instanceof DeleteFromTable || plan instanceof UpdateTable || plan instanceof MergeIntoTable;
        }

        private static boolean isShared(Object node) {
            if (!(node instanceof DataSourceV2Relation)) return false;
            Object table = ((DataSourceV2Relation) node).table();
            return table instanceof PrivateScan && ((PrivateScan) table).isShared();
        }

        private static DataSourceV2Relation with(DataSourceV2Relation load, PrivateScan table) {
            return Relations.over(load, table, load.output());
        }

        private PythonDataSourceV2 source(Object node) {
            if (!(node instanceof DataSourceV2Relation)) return null;
            Object table = ((DataSourceV2Relation) node).table();
            if (!(table instanceof PythonTable) || table instanceof PrivateScan) return null;
            if (table instanceof CatalogLoad) return sourceOf((PythonTable) table);
            return format.equalsIgnoreCase(((PythonTable) table).name()) ? sourceOf((PythonTable) table) : null;
        }

        private LogicalPlan replaced(DataSourceV2Relation load, PythonDataSourceV2 source) {
            PrivateScan.Opened opened = opened(load, source);
            NativeScan scan = opened.nativeScan();
            if (scan != null && scan.gives(load.schema())) return scan.over(load.output(), session);
            return with(load, PrivateScan.of(load.schema(), opened, new PrivateScan.Asked()));
        }

        private PrivateScan.Opened opened(DataSourceV2Relation load, PythonDataSourceV2 source) {
            return ScanRules.opened(load, source, format, open);
        }
    }

    /** All scans of one load read one version, so it is opened once. */
    static PrivateScan.Opened opened(
        DataSourceV2Relation load, PythonDataSourceV2 source, String format, Function open) {
        if (load.table() instanceof CatalogLoad) return ((CatalogLoad) load.table()).opened(load.options());
        synchronized (source) {
            PrivateScan.Opened known = (PrivateScan.Opened) OPENED.get(source);
            if (known == null) {
                byte[] pickled = source.getOrCreateDataSourceInPython(
                    format, load.options(), scala.Option.apply(load.schema())).dataSource();
                known = (PrivateScan.Opened) Texts.checked(open.apply(pickled));
                OPENED.put(source, known);
            }
            return known;
        }
    }

    /** Open a load again at its next read. */
    static void forget(PythonDataSourceV2 source) {
        OPENED.remove(source);
    }

    static PythonDataSourceV2 sourceOf(PythonTable table) {
        try {
            Field field = PythonTable.class.getDeclaredField("ds");
            field.setAccessible(true);
            return (PythonDataSourceV2) field.get(table);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /**
     * Aggregations are answered by the log or the index, limits stop scans early, and filters go to the index or select
     * splits, so Spark plans for the remaining part of the table.
     */
    private static final class PruneSplits extends Rule {
        public TreeNode apply(TreeNode plan) {
            return ((LogicalPlan) plan).transformDown(new AbstractPartialFunction() {
                public boolean isDefinedAt(Object node) {
                    return node instanceof Aggregate || node instanceof LocalLimit || NativeScan.isFiltered(node);
                }

                public Object applyOrElse(Object node, scala.Function1 otherwise) {
                    LogicalPlan better = null;
                    if (node instanceof Aggregate) better = AggregateRules.answered((Aggregate) node);
                    else if (node instanceof LocalLimit) better = LimitRules.stopped((LocalLimit) node);
                    else if (NativeScan.isFiltered(node)) better = NativeScan.pruned(node);
                    return better == null ? otherwise.apply(node) : better;
                }
            });
        }
    }
}
