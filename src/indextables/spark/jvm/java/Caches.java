package indextables.spark;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.CachedData;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Our tables and frames in Spark's cache. As with Spark's own files, a change through a session recomputes every cached
 * query of the table.
 */
final class Caches {
    private static final String[] PINS = {"versionAsOf", "timestampAsOf"};

    /** The locations of tables that cached queries read, as spelled there. */
    static Set places(SparkSession session, String format) throws ReflectiveOperationException {
        Set places = new LinkedHashSet();
        CacheManager manager = manager(session);
        if (manager.isEmpty()) return places;
        Field field = CacheManager.class.getDeclaredField("cachedData");
        field.setAccessible(true);
        List cached = CollectionConverters.asJava((Seq) field.get(manager));
        for (int i = 0; i < cached.size(); i++) {
            List relations = relations(((CachedData) cached.get(i)).plan(), format, new ArrayList());
            for (int j = 0; j < relations.size(); j++) places.add(((Sources.Relation) relations.get(j)).place());
        }
        return places;
    }

    /**
     * Recompute cached queries after a change of the tables at some locations. `move` takes a pickled data source, and
     * returns one that reads the newest version.
     */
    static void changed(SparkSession session, final List places, final String format, final Function move)
        throws ReflectiveOperationException {
        invoke("recacheByCondition", new Object[] {manager(session), session, new AbstractFunction1() {
            public Object apply(Object cached) {
                List relations = relations(((CachedData) cached).plan(), format, new ArrayList());
                boolean isOld = false;
                for (int i = 0; i < relations.size(); i++) {
                    Sources.Relation relation = (Sources.Relation) relations.get(i);
                    if (places.contains(relation.place())) isOld = isMoved(relation, format, move) || isOld;
                }
                return Boolean.valueOf(isOld);
            }
        }});
    }

    /** Drop everything that is cached. */
    static void clear(SparkSession session) {
        manager(session).clearCache();
    }

    /** Whether a relation reads another version after the change. Spark itself asks the catalog for the newest one. */
    private static boolean isMoved(Sources.Relation relation, String format, Function move) {
        if (relation.table instanceof CatalogLoad) return true;
        if (relation.table instanceof PrivateScan || !(relation.node instanceof DataSourceV2Relation)) return false;
        for (int i = 0; i < PINS.length; i++) {
            if (relation.options.containsKey(PINS[i])) return false;
        }
        PythonDataSourceV2 source = ScanRules.sourceOf((PythonTable) relation.table);
        synchronized (source) {
            PythonDataSourceCreationResult made = source.getOrCreateDataSourceInPython(
                format, relation.options, scala.Option.apply(relation.node.schema()));
            Object moved = move.apply(made.dataSource());
            if (!(moved instanceof byte[])) return true;  // the next read raises the error
            set(source, "dataSourceInPython", new PythonDataSourceCreationResult((byte[]) moved, made.schema()));
            set(source, "readInfo", null);
            ScanRules.forget(source);
        }
        return true;
    }

    private static void set(PythonDataSourceV2 source, String name, Object value) {
        try {
            Field field = PythonDataSourceV2.class.getDeclaredField(name);
            field.setAccessible(true);
            field.set(source, value);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Drop the cached data of a frame, at any version of its tables. */
    static void forget(SparkSession session, Dataset frame, boolean blocking) throws ReflectiveOperationException {
        LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset) frame).queryExecution().normalized();
        final LogicalPlan wanted = unversioned(plan);
        if (wanted == plan) return;
        invoke("uncacheByCondition", new Object[] {manager(session), session, new AbstractFunction1() {
            public Object apply(Object cached) {
                return Boolean.valueOf(unversioned((LogicalPlan) cached).sameResult(wanted));
            }
        }, Boolean.FALSE, Boolean.valueOf(blocking)});
    }

    /** A frame of the same plan, with catalog tables at their newest versions. A command is not run again. */
    static Dataset renewed(Dataset frame) {
        LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset) frame).queryExecution().commandExecuted();
        if (unversioned(plan) == plan) return frame;
        return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(
            (org.apache.spark.sql.classic.SparkSession) frame.sparkSession(), plan);
    }

    /** A plan whose catalog tables are equal at all versions. */
    private static LogicalPlan unversioned(LogicalPlan plan) {
        return (LogicalPlan) plan.transformDown(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object node) {
                return node instanceof DataSourceV2Relation && ((DataSourceV2Relation) node).table() instanceof CatalogLoad;
            }

            public Object applyOrElse(Object node, scala.Function1 otherwise) {
                if (!isDefinedAt(node)) return otherwise.apply(node);
                DataSourceV2Relation load = (DataSourceV2Relation) node;
                return Relations.over(load, ((CatalogLoad) load.table()).unversioned(), load.output());
            }
        });
    }

    private static CacheManager manager(SparkSession session) {
        return ((org.apache.spark.sql.classic.SparkSession) session).sharedState().cacheManager();
    }

    /** Call a private method of Spark: the object, then its arguments. */
    private static void invoke(String name, Object[] given) throws ReflectiveOperationException {
        Method[] methods = CacheManager.class.getDeclaredMethods();
        for (int i = 0; i < methods.length; i++) {
            if (!methods[i].getName().equals(name)) continue;
            methods[i].setAccessible(true);
            Object[] arguments = new Object[given.length - 1];
            System.arraycopy(given, 1, arguments, 0, arguments.length);
            try {
                methods[i].invoke(given[0], arguments);
                return;
            } catch (InvocationTargetException error) {
                if (error.getCause() instanceof RuntimeException) throw (RuntimeException) error.getCause();
                throw error;
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static List relations(LogicalPlan node, String format, List found) {
        Sources.Relation relation = Sources.relation(node, format);
        if (relation != null) found.add(relation);
        List children = CollectionConverters.asJava(node.children());
        for (int i = 0; i < children.size(); i++) relations((LogicalPlan) children.get(i), format, found);
        List expressions = CollectionConverters.asJava(node.expressions());
        for (int i = 0; i < expressions.size(); i++) relations((Expression) expressions.get(i), format, found);
        return found;
    }

    private static void relations(Expression expression, String format, List found) {
        if (expression instanceof PlanExpression) relations((LogicalPlan) ((PlanExpression) expression).plan(), format, found);
        List children = CollectionConverters.asJava(expression.children());
        for (int i = 0; i < children.size(); i++) relations((Expression) children.get(i), format, found);
    }
}
